"""Measure the cost of plugins, in a lowering and in the command."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import onnxexp
from onnxexp._builder.export_builder import ExportBuilder
from onnxexp._lowering.lowering import Lowering
from onnxexp._plugins.loading import Plugins, load
from onnxexp._request.config import load as configured
from onnxexp.graph import Graph, Node, TensorType, Value

NODES, PLUGINS, PACKS, ROUNDS = 5_000, 10, 50, 9


class DecliningPlugin:
    """A plugin whose hook runs for every node and lowers none."""

    def __init__(self, number: int) -> None:
        self.op = f"vendor{number}::op"

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: Node) -> Any:
        return op.Identity(op.args[0]) if node.op == self.op else None


def measure() -> dict[str, float]:
    """Return the median milliseconds of each measurement."""
    table = onnxexp.SymbolicTable("aten")
    table.direct({"sin": "Sin"})
    bare = load(configured(plugins=[table]))
    full = load(configured(plugins=[table, *(DecliningPlugin(number) for number in range(PLUGINS))]))
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(ROUNDS):
        for name, plugins in (("without", bare), ("with", full)):
            seconds[name].append(_lower(plugins))
    medians = {name: statistics.median(samples) * 1e3 for name, samples in seconds.items()}
    return {
        f"lowering {NODES:,} nodes": medians["without"],
        f"the same, {PLUGINS} plugins with lower_node": medians["with"],
        "the plugins' share": medians["with"] - medians["without"],
        f"`onnxexp plugins` with {PACKS} packs installed, wall": _command() * 1e3,
    }


def _lower(plugins: Plugins) -> float:
    type_ = TensorType(torch.float32, (2, 3))
    value = Value("x", type_)
    graph = Graph(inputs=[value])
    for number in range(NODES):
        result = Value(f"v{number}", type_)
        graph.nodes.append(Node("aten::sin", [value], [result]))
        value = result
    graph.outputs = [value]
    builder = ExportBuilder(onnxexp.ExportContext(onnxexp.Options(opset=20)))
    lowering = Lowering(builder, plugins, lambda node: None)
    lowering.bind(graph.inputs[0], builder.input("x", type_))
    gc.collect()  # else some samples include a full collection, which takes as long as the lowering
    start = time.process_time()
    lowering.run(graph)
    return time.process_time() - start


def _command() -> float:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(PACKS):
            metadata = Path(folder) / f"pack{number}-1.0.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pack{number}\nVersion: 1.0\n")
            (metadata / "entry_points.txt").write_text(f"[onnxexp.plugins]\npack{number} = pack{number}:table\n")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}
        command = [sys.executable, "-m", "onnxexp", "plugins", "--json"]
        samples = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            samples.append(time.perf_counter() - start)
        assert done.stdout.count("pack49") >= 1, "the packs are installed, so the command must list them"
    return statistics.median(samples)
