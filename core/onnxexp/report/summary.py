"""A short summary of an export for people: what came in and out, where the time went, what the graph is made of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxexp.report.text import ascii_text, bytes_text, initializers_text, type_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from onnxexp.program import ONNXProgram
    from onnxexp.verify import VerificationReport

__all__ = ["operator_counts", "plain", "summary"]

_BAR = 24
"""Width of the bar of the longest stage and the commonest operator."""
_OPERATORS = 12
"""Operators listed; the rest is counted together."""


def operator_counts(model: ir.Model) -> Counter[str]:
    """Nodes by operator, commonest first, those of subgraphs and functions too."""
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    nodes = [node for graph in graphs for node in graph.all_nodes()]
    counts = Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in nodes)
    return Counter(dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))))


def summary(
    program: ONNXProgram,
    *,
    report: VerificationReport | None = None,
    path: str | os.PathLike[str] | None = None,
    next_steps: Sequence[str] = (),
) -> RenderableType:
    """What rich prints: the facts, the stages with their times, the nodes by operator.

    Args:
        program: The exported model.
        report: How it compared with the original.
        path: Where it was saved.
        next_steps: Lines that say what to try next.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_facts(program, report, path)]
    total = sum(program.timings.values())
    if program.timings:
        stages = [(stage, seconds, _seconds(seconds)) for stage, seconds in program.timings.items()]
        parts += ["", Text(f"Stages ({_seconds(total)})", style="bold"), _bars(stages, "cyan")]
    counts = operator_counts(program.model)
    if counts:
        common = [(name, float(count), str(count)) for name, count in counts.most_common(_OPERATORS)]
        rest = sum(counts.values()) - sum(count for _, count in counts.most_common(_OPERATORS))
        if rest:
            common.append((f"{len(counts) - _OPERATORS} others", float(rest), str(rest)))
        parts += ["", Text(f"Nodes ({sum(counts.values())})", style="bold"), _bars(common, "green")]
    if next_steps:
        parts += ["", Text("Try next", style="bold"), *(Text(f"  {ascii_text(step)}") for step in next_steps)]
    return Group(*parts)


def plain(renderable: RenderableType, width: int = 100) -> str:
    """What rich would print, as text without colours."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _facts(program: ONNXProgram, report: VerificationReport | None, path: str | os.PathLike[str] | None) -> Table:
    graph = program.model.graph
    facts = [
        ("Inputs", _listed(graph.inputs)),
        ("Outputs", _listed(graph.outputs)),
        ("Weights", initializers_text(graph)),
        ("Opset", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in program.model.opset_imports.items())),
    ]
    if report is not None:
        verdict = "agrees with eager" if report.ok else "DIFFERS from eager"
        facts.append(("Check", f"{verdict}, largest error {report.max_abs:.2g}"))
    if path is not None:
        facts.append(("File", f"{os.fspath(path)} ({bytes_text(os.path.getsize(path))})"))
    return _grid((ascii_text(name), ascii_text(value)) for name, value in facts)


def _listed(values: Sequence[ir.Value]) -> str:
    return "\n".join(f"{value.name}: {type_text(value)}" for value in values) or "none"


def _grid(rows: Iterable[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def _bars(rows: Sequence[tuple[str, float, str]], style: str) -> Table:
    """A row per item: name, figure, and a bar as long as its share of the largest."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    largest = max(value for _, value, _ in rows) or 1.0
    for name, value, figure in rows:
        table.add_row(Text(f"  {ascii_text(name)}"), figure, Text("#" * round(_BAR * value / largest), style=style))
    return table


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
