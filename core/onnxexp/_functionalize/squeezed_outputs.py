"""Outputs whose rank depends on the sizes of a call."""

from __future__ import annotations

from typing import Any

from onnxexp._neutral_graph import Dim, Graph, TensorType, Value


def squeezed_shapes(graph: Graph) -> dict[Any, tuple[Dim, ...]]:
    """Map outputs without a rank to their shapes at sizes other than 1.

    Such an output is the result of a `squeeze` of dynamic axes.
    """
    found: dict[Any, tuple[Dim, ...]] = {}
    unknown = {output for output in graph.outputs if isinstance(output, Value) and _has_no_rank(output)}
    for node in graph.nodes:
        result = node.outputs[0] if node.op.startswith("aten::squeeze") else None
        if result not in unknown or _has_no_rank(node.args[0]):
            continue
        sizes = node.args[0].type.sizes
        given = node.args[1] if len(node.args) > 1 else range(len(sizes))
        axes = {axis % len(sizes) for axis in ([given] if isinstance(given, int) else given)}
        found[result] = tuple(size for axis, size in enumerate(sizes) if axis not in axes or size != 1)
    return found


def _has_no_rank(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.sizes is None
