"""Check the contract of a pass: inputs, outputs and opset stay.

The contract is checked after each pass, the whole graph in debug mode only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from onnxexp.neutral_graph import Graph, Value, values_in
from onnxexp.serialize.proto_layout import skeleton

__all__ = ["changed", "check_graph", "check_model", "contract"]

Contract = tuple[Any, ...]


def contract(subject: Graph | ir.Model) -> Contract:
    """The inputs and outputs (names, dtypes, order) and the opset."""
    if isinstance(subject, Graph):
        return tuple(value.name for value in subject.inputs), len(subject.outputs)
    graph = subject.graph
    inputs = tuple((value.name, value.dtype) for value in graph.inputs)
    outputs = tuple((value.name, value.dtype) for value in graph.outputs)
    return inputs, outputs, graph.opset_imports.get("")


def changed(before: Contract, subject: Graph | ir.Model) -> str:
    """Describe how a pass broke the contract; "" if it did not."""
    parts = zip(("inputs", "outputs", "opset"), before, contract(subject), strict=False)
    return next((f"its {name} were {was}, now they are {now}" for name, was, now in parts if was != now), "")


def check_graph(graph: Graph) -> str:
    """Find a value that is used before it is made, or made twice; "" if there is none."""
    return next(_faults(graph, set()), "")


def _faults(graph: Graph, outer: set[Value]) -> Iterator[str]:
    known = {*outer, *graph.inputs, *graph.params}
    for node in graph.nodes:
        for value in node.inputs():
            if value not in known:
                yield f"{node!r} uses %{value.name}, which nothing before it makes"
        for block in node.blocks:
            yield from _faults(block, known)
        for value in node.outputs:
            if value in known:
                yield f"{node!r} makes %{value.name} a second time"
            known.add(value)
    for value in values_in(graph.outputs):
        if value not in known:
            yield f"the graph returns %{value.name}, which nothing makes"


def check_model(model: ir.Model) -> str:
    """Run onnx's checker without the weights; return its message, or ""."""
    try:
        proto = skeleton(model)
        inputs = {given.name for given in proto.graph.input}
        for name, value in model.graph.initializers.items():
            if name not in inputs:
                proto.graph.input.append(ir.to_proto(value))
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # noqa: BLE001 – a broken graph may fail anywhere on its way into the checker
        return f"{type(error).__name__}: {error}"
    return ""
