"""What no pass may break: looked at after each, the cheap part always, the rest in debug mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from onnxexp.graph import Graph, Value, values_in
from onnxexp.serialize.messages import skeleton

__all__ = ["changed", "check_graph", "check_model", "contract"]

Contract = tuple[Any, ...]


def contract(subject: Graph | ir.Model) -> Contract:
    """What the outside relies on: inputs and outputs (names, dtypes, order), and the opset."""
    if isinstance(subject, Graph):
        return tuple(value.name for value in subject.inputs), len(subject.outputs)
    graph = subject.graph
    # a slice is a list; to iterate the container itself takes twice as long, and this runs after every pass
    inputs = tuple([(value.name, value.dtype) for value in graph.inputs[:]])
    outputs = tuple([(value.name, value.dtype) for value in graph.outputs[:]])
    return inputs, outputs, graph.opset_imports.get("")


def changed(before: Contract, subject: Graph | ir.Model) -> str:
    """How the contract was broken, "" where it was not."""
    after = contract(subject)
    if after == before:
        return ""
    names = ("inputs", "outputs", "opset")
    for name, was, now in zip(names, before, after, strict=False):
        if was != now:
            return f"its {name} were {was}, now they are {now}"
    return ""


def check_graph(graph: Graph) -> str:
    """What is wrong with a captured graph, "" where nothing is: every value is made once, before it is used."""
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
    """What onnx's checker says of the model with its weights left out, "" where it is content."""
    try:
        proto = skeleton(model)
        for name, value in model.graph.initializers.items():
            if name not in {given.name for given in proto.graph.input}:
                proto.graph.input.append(ir.to_proto(value))
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # noqa: BLE001 – a broken graph may fail anywhere on its way into the checker
        return f"{type(error).__name__}: {error}"
    return ""
