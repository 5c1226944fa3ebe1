"""The needs of an export of 70 and 400 billion parameters.

The command is `python -m benchmarks.scale --from bench-results/some.json`.

The graph is measured: Llamas of these sizes on the meta device are captured and lowered without weights, each in a process of
its own. The weights are calculated from the 7 B model that `python -m benchmarks --large` has exported with them: time grows with
the bytes, and memory with the largest weight, since a few weights are in memory at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnxexp

from . import memory
from .case import padding_mask, tokens
from .exporters import ONNXEXP
from .large import LargeResult
from .large_models import LARGE, LargeCase
from .results import Run

MEASURED = "llama-7b"
SIZES = {
    MEASURED: LARGE[MEASURED],
    "llama-70b": LargeCase(8192, 28_672, 80, 64, 8, hollow=True, limit=0.1),
    "llama-400b": LargeCase(16_384, 53_248, 126, 128, 8, hollow=True, limit=0.1),
}
_AXES = ({0: "batch", 1: "sequence"},) * 2


@dataclasses.dataclass(frozen=True)
class Needs:
    """The needs of a model's export: seconds, and bytes of memory and disk.

    Attributes:
        parameters, weights, largest: The number of parameters, the bytes of all and of the largest.
        nodes: The nodes of the graph.
        graph_time, graph_memory: To capture and lower the graph without weights, measured; memory beyond the imports'.
        weights_time, weights_memory: To read and write the weights, calculated; for those that are in memory at a time.
        disk: The checkpoint and the file.
    """

    parameters: int
    weights: int
    largest: int
    nodes: int
    graph_time: float
    graph_memory: int
    weights_time: float
    weights_memory: float
    disk: int


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--from", dest="source", type=Path, metavar="JSON", help="the results of `python -m benchmarks --large`")
    parser.add_argument("--models", nargs="+", choices=SIZES, default=list(SIZES), help="only these sizes")
    parser.add_argument("--graph", choices=SIZES, help="print the figures of one graph as JSON, and measure no other")
    options = parser.parse_args()
    if options.graph:
        print(json.dumps(graph_figures(SIZES[options.graph])))
        return
    if options.source is None:
        parser.error("give --from JSON")
    measured = next(each for each in Run.load(options.source).large if (each.name, each.tool) == (MEASURED, ONNXEXP))
    graphs = {name: _in_a_process(name) for name in dict.fromkeys([MEASURED, *options.models])}
    print(_table({name: needs(graphs[name], graphs[MEASURED], measured) for name in options.models}))


def graph_figures(case: LargeCase) -> dict[str, Any]:
    """Measure the export of a model on the meta device without its weights."""
    ids = tokens(32_000, 2, 16)
    args = (ids, padding_mask(*ids.shape))
    options: dict[str, Any] = {"dynamic_shapes": _AXES, "export_params": False, "capture": "export"}
    onnxexp.export(case.tiny(), args, **options)  # imports
    model = case.make()
    sizes = [parameter.nbytes for parameter in model.parameters()]

    def export() -> tuple[float, int]:
        start = time.perf_counter()
        program = onnxexp.export(model, args, **options)
        return time.perf_counter() - start, len(program.model.graph)

    (seconds, nodes), growth = memory.anonymous_growth(export)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "parameters": parameters, "weights": sum(sizes), "largest": max(sizes), "nodes": nodes,
        "seconds": seconds, "memory": growth,
    }  # fmt: skip


def needs(graph: dict[str, Any], reference: dict[str, Any], measured: LargeResult) -> Needs:
    """Calculate the needs of a model's export.

    Args:
        graph, reference: The figures of its graph, and of the graph of the measured model.
        measured: The export of the measured model with weights.
    """
    in_stages = sum(seconds for stage, seconds in measured.stages.items() if stage != "write")
    weights_time = (measured.seconds - in_stages) / measured.weights
    pages = (measured.growth - reference["memory"]) / reference["largest"]
    return Needs(
        graph["parameters"],
        graph["weights"],
        graph["largest"],
        graph["nodes"],
        graph["seconds"],
        graph["memory"],
        graph["weights"] * weights_time,
        graph["largest"] * pages,
        2 * graph["weights"],
    )


def _in_a_process(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", "--graph", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _table(found: dict[str, Needs]) -> str:
    heads = (
        "model", "parameters, 10^9", "weights, GB", "largest weight, GB", "nodes", "graph, s", "weights, s", "graph, GB",
        "weights in memory, GB", "disk, GB",
    )  # fmt: skip
    lines = [" | ".join(heads), " | ".join(["---", *["---:"] * (len(heads) - 1)])]
    for name, each in found.items():
        figures = [each.parameters, each.weights, each.largest, each.graph_memory, each.weights_memory, each.disk]
        parameters, weights, largest, graph, pages, disk = (f"{figure / 1e9:,.2f}" for figure in figures)
        numbers = [f"{each.nodes:,}", f"{each.graph_time:,.0f}", f"{each.weights_time:,.0f}"]
        lines.append(" | ".join([name, parameters, weights, largest, *numbers, graph, pages, disk]))
    return "\n".join(f"| {line} |" for line in lines)


if __name__ == "__main__":
    main()
