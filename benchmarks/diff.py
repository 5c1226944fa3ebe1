"""Compare the operators of a model's files, before and after ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import graphs, running
from .exporters import ONNXEXP, PEERS


def show(name: str, settings: running.Settings, folder: Path, console: Console) -> None:
    """Export the model with each tool and print the counts side by side."""
    written: dict[str, Counter[str]] = {}
    for tool in (ONNXEXP, *PEERS):
        result = running.export(name, tool, settings, folder)
        if result.reason is not None:
            console.print(f"{tool} failed: {result.reason}", markup=False)
            continue
        written[tool] = Counter(result.operators)
    optimized = {tool: _optimized(running.model_file(folder, tool)) for tool in written}
    console.print(_table(f"{name}: nodes as exported", written))
    console.print(_table(f"{name}: nodes after ONNX Runtime's optimizations", optimized))


def _optimized(path: Path) -> Counter[str]:
    """Count the operators after ONNX Runtime's optimizations for the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path.with_name("optimized.onnx"))
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.data")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return graphs.operators(options.optimized_model_filepath)


def _table(title: str, counts: dict[str, Counter[str]]) -> Table:
    """Build a table with a row per operator, the largest differences first."""
    table = Table(title=title, title_justify="left")
    table.add_column("operator")
    for tool in counts:
        table.add_column(tool, justify="right")
    table.add_column("more than the better peer", justify="right")
    peers = [tool for tool in counts if tool != ONNXEXP]

    def excess(values: dict[str, int]) -> int:
        return values.get(ONNXEXP, 0) - min((values[peer] for peer in peers), default=0)

    rows = {operator: {tool: counts[tool][operator] for tool in counts} for count in counts.values() for operator in count}
    rows = dict(sorted(rows.items(), key=lambda item: (-excess(item[1]), item[0])))
    rows["all but Constant"] = {tool: count.total() - count["Constant"] for tool, count in counts.items()}
    for operator, values in rows.items():
        if operator == "all but Constant":
            table.add_section()
        table.add_row(operator, *(str(value) for value in values.values()), f"{excess(values):+d}" if excess(values) else "")
    return table
