"""Refuse scatters into views whose elements overlap.

torch copies such a view with its strides: ``x.unfold(0, 2, 1).select_scatter(y, 1, 0)`` changes each element that shares the
memory of a written one, in the order of the kernel.
"""

from __future__ import annotations

from typing import Any

from onnxexp._functionalize.contiguity import Contiguity
from onnxexp._functionalize.mutation import MutationInfo, packet
from onnxexp._functionalize.places import refuse
from onnxexp._functionalize.write_back import are_apart
from onnxexp._neutral_graph import Graph, Node, Value

_SCATTERS = frozenset({"aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter"})


def refuse_scatters_into_overlaps(graph: Graph) -> None:
    """Raise CaptureError for a scatter into a view whose elements may overlap."""
    nodes = list(graph.walk())
    if not any(packet(node.op) in _SCATTERS for node in nodes):
        return
    contiguity, made = Contiguity(graph), dict[Value, Node]()
    for node in nodes:
        if packet(node.op) in _SCATTERS:
            layout = contiguity.layout(node.args[0])
            if layout is not None and are_apart(layout.shape, layout.stride()):
                continue
            if (view := _overlapping_view(node.args[0], made)) is not None:
                what = f"elements of the {view.op} that {node.op} copies may share memory, so that a write changes several"
                refuse(what, node.where, "clone() the view first")
        made.update(dict.fromkeys(node.outputs, node))
        contiguity.visit(node, MutationInfo.of(node.op))


def _overlapping_view(value: Value, made: dict[Value, Node]) -> Node | None:
    """Return the view, if any, in which several elements of a value share memory."""
    while (maker := made.get(value)) is not None:
        name, viewed = packet(maker.op), MutationInfo.of(maker.op).viewed
        if name == "aten::as_strided" and not are_apart(*maker.args[1:3]):
            return maker
        if name == "aten::unfold" and not _windows_are_apart(*maker.args[2:4]):
            return maker
        if name == "aten::contiguous" or viewed is None or not isinstance(maker.args[viewed], Value):
            break
        value = maker.args[viewed]
    return None


def _windows_are_apart(size: Any, step: Any) -> bool:
    """Return whether windows have no element in common."""
    return isinstance(size, int) and isinstance(step, int) and size <= step
