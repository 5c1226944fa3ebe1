"""Caches that a model may write in place: past and present share a buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx_ir as ir

SHARED_BUFFERS = "onnxexp.shared_buffers"
"""The key of the model's metadata that lists these inputs, separated by spaces."""
_WRITES: Mapping[tuple[str, str], Mapping[int, int]] = MappingProxyType(
    {
        ("", "ScatterElements"): {0: 0},
        ("", "TensorScatter"): {0: 0},
        ("com.microsoft", "GroupQueryAttention"): {3: 1, 4: 2},
    }
)
"""Operators that ONNX Runtime computes in place, with the input and the output that may share a buffer."""


def present_of(name: str) -> str:
    """Return the output with the new value of a ``past_key_values...``."""
    return f"present.{name.partition('.')[2]}"


def shareable(graph: ir.Graph) -> list[str]:
    """List the inputs of a decoder whose buffers may be those of outputs, too.

    Such an input is a cache of a fixed size. An operator writes the new tokens into it, and nothing else reads it; branches of an
    If may each have such an operator. GroupQueryAttention writes in place only if it does so with keys and values.
    """
    parents = _parents(graph)
    outputs = {value.name: value for value in graph.outputs}
    found = {value: _writers(value, outputs.get(present_of(value.name or "")), parents) for value in graph.inputs}
    free = {value for value, writers in found.items() if writers}
    while True:
        alone = {value for value in free if not all(_partners(writer) <= free for writer in found[value])}
        if not alone:
            return [value.name or "" for value in graph.inputs if value in free]
        free -= alone


def _parents(graph: ir.Graph) -> dict[ir.Graph, ir.Node]:
    """Map each branch of an If to the If."""
    return {
        attribute.as_graph(): node
        for node in ir.traversal.RecursiveGraphIterator(graph)
        for attribute in (node.attributes.values() if node.op_type == "If" else ())
    }


def _writers(past: ir.Value, present: ir.Value | None, parents: Mapping[ir.Graph, ir.Node]) -> Sequence[ir.Node]:
    """List the nodes that write `present` into the buffer of `past`, if they may."""
    sizes = [] if past.shape is None else list(past.shape)
    if present is None or present.shape != past.shape or present.dtype != past.dtype or len(sizes) < 2:
        return []
    uses = [(node, place) for node, place in past.uses() if node.op_type != "Shape"]
    if not all(isinstance(size, int) for size in sizes[1:]) or len({node.graph for node, _ in uses}) < len(uses):
        return []
    for node, place in uses:
        result = _WRITES.get((node.domain, node.op_type), {}).get(place)
        if result is None or _returned(node.outputs[result], parents) is not present:
            return []
    return [node for node, _ in uses]


def _returned(value: ir.Value, parents: Mapping[ir.Graph, ir.Node]) -> ir.Value | None:
    """Follow the result of a branch to the value of the model's graph."""
    graph = value.graph
    parent = parents.get(graph) if isinstance(graph, ir.Graph) else None
    if parent is None or graph is None:
        return value
    place = next((index for index, output in enumerate(graph.outputs) if output is value), None)
    return None if place is None else _returned(parent.outputs[place], parents)


def _partners(writer: ir.Node) -> set[ir.Value]:
    """Return all inputs that a node writes in place together."""
    places = _WRITES[writer.domain, writer.op_type]
    return {value for place in places if (value := writer.inputs[place]) is not None}
