"""Check whether a captured graph is sound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnxexp._errors import summary
from onnxexp._neutral_graph import Graph, Type, Value, values_in


def check_graph(graph: Graph) -> str:
    """Find a value that is used before it is made, or made twice, or return ""."""
    try:
        return next(_faults(graph, set()), "")
    except Exception as error:  # noqa: BLE001 – a pass may leave anything where a node or value was
        return f"it cannot be read: {summary(error)}"


def _faults(graph: Graph, outer: set[Value]) -> Iterator[str]:
    known = {*outer, *graph.inputs, *graph.params}
    params: dict[Any, Any] = {**graph.params}  # a pass may have left anything in it
    yield from (f"the parameter {key!r} is {held!r}" for key, held in params.items() if not isinstance(held, torch.Tensor))
    for node in graph.nodes:
        op: Any = node.op
        if not isinstance(op, str) or not all(isinstance(each.type, Type) for each in node.outputs):
            yield f"{node!r} has no operator, or an output without a type"
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
