"""Run a model in ONNX Runtime, and measure its nodes."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxexp import OnnxExporterError
from onnxexp_quantization_report.layers import Layer
from onnxexp_quantization_report.model_file import OPTIMIZED, ModelFile, original_nodes, session
from onnxexp_quantization_report.optimized_graph import OptimizedGraph
from onnxexp_quantization_report.quantize_pairs import dequantized

_KERNEL = "_kernel_time"
"""The end of a profile's event for the run of a node."""

_OUTER = ("If", "Loop", "Scan")
"""Nodes whose time is that of the nodes inside, which have events of their own."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The optimized graph, and the times of its nodes.

    Attributes:
        graph: The optimized graph.
        seconds: The median time of each node over the runs, by its name.
        operators: The same time by operator, the longest first.
    """

    graph: OptimizedGraph
    seconds: dict[str, float]
    operators: dict[str, float]


def run(file: ModelFile, feeds: Mapping[str, np.ndarray], runs: int, folder: Path, threads: int = 0) -> Measurement:
    """Optimize a model and run it, once to warm up and `runs` times to measure.

    Raises OnnxExporterError where ONNX Runtime refuses the model or the inputs.
    """
    loaded = session(file, threads, measured_in=folder)
    try:
        for _ in range(runs + 1):
            loaded.run(feeds)
    except OnnxExporterError as error:
        shapes = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in feeds.items())
        raise OnnxExporterError(
            f"{file.title} cannot run with {shapes}: {error}\nGive inputs that fit with --input, or sizes with --sizes"
        ) from error
    del loaded  # which completes the profile
    (profile,) = folder.glob("profile*.json")
    times, operators = _times(json.loads(profile.read_text("utf-8")))
    seconds = {name: _per_run(each, runs + 1) for name, each in times.items()}
    shares: dict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        shares[operators[name]] += value
    longest_first = dict(sorted(shares.items(), key=lambda item: -item[1]))
    return Measurement(OptimizedGraph(ir.load(folder / OPTIMIZED)), seconds, longest_first)


def _per_run(times: list[float], runs: int) -> float:
    """Return the median of a node's time in the runs after the first.

    The times of a node that runs several times, as in a loop, are added within each run.
    """
    often = max(1, len(times) // runs)
    sums = [sum(times[start : start + often]) for start in range(0, len(times), often)]
    return statistics.median(sums[1:] or sums)


def _times(events: list[dict[str, Any]]) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the times of each node in seconds, in order, and its operator."""
    times: dict[str, list[float]] = defaultdict(list)
    operators = {}
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            arguments = event.get("args", {})
            if arguments.get("op_name") in _OUTER:
                continue
            name = name.removesuffix(_KERNEL) or f"#{arguments.get('node_index')}"
            times[name].append(event["dur"] / 1e6)
            operators[name] = str(arguments.get("op_name", ""))
    return times, operators


def time_layers(layers: list[Layer], measured: Measurement) -> None:
    """Set the layers' times.

    A layer's time is that of what ran for its node, and of what dequantizes its weights in each run.
    """
    for layer in layers:
        weights = [source for value in layer.node.inputs if (source := dequantized(value)) is not None and source.constant]
        indices = [layer.index, *(original_nodes(source.node.name or "")[0] for source in weights)]
        nodes = {node.name or "": node for index in indices for node in measured.graph.marked(index)}
        kept = measured.graph.counterpart(layer.node)
        if kept is not None:
            nodes[kept.name or ""] = kept
        found = [measured.seconds[name] for name in nodes if name in measured.seconds]
        layer.seconds = sum(found) if found else None
