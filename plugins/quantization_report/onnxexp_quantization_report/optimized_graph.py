"""The nodes that ONNX Runtime made of the original ones.

ONNX Runtime derives the name of a fused node from that of the node that it replaces (`model_file.marked`), and the result of a
node that it keeps has its old name. Nodes without either are found through the nodes after them.
"""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from onnxexp_quantization_report.model_file import original_nodes
from onnxexp_quantization_report.operator_sets import INTEGERS, MOVING, family, is_integer_operator
from onnxexp_quantization_report.quantize_pairs import users

_HELPERS = {"DequantizeLinear", "QuantizeLinear", "Transpose", "Reshape", "Cast", "ReorderInput", "ReorderOutput"}
"""Nodes that ONNX Runtime puts around another one."""

_STEPS = 8
"""How far after a node the one that has absorbed it is looked for."""


class OptimizedGraph:
    """The model that ONNX Runtime runs, searched by the nodes of the original one."""

    def __init__(self, model: ir.Model) -> None:
        self.nodes = list(model.graph.all_nodes())
        self._marked: dict[int, list[ir.Node]] = defaultdict(list)
        self._named = {node.name or "": node for node in self.nodes}
        self._producers = {value.name: node for node in self.nodes for value in node.outputs}
        for node in self.nodes:
            for index in original_nodes(node.name or ""):
                self._marked[index].append(node)

    def marked(self, index: int) -> list[ir.Node]:
        """Return the nodes that have an original node's name."""
        return self._marked.get(index, [])

    def counterpart(self, node: ir.Node) -> ir.Node | None:
        """Return the node that replaces an original one; None if it was fused or folded."""
        (index,) = original_nodes(node.name or "")
        found = [each for each in self.marked(index) if each.op_type not in _HELPERS or each.op_type == node.op_type]
        same = [each for each in found if family(each.op_type) == family(node.op_type)]
        if found:
            return (same or found)[-1]
        for value in node.outputs:
            for kept in (self._named.get(f"{value.name}_nchwc"), self._producers.get(value.name)):
                if kept is not None and (kept.op_type not in _HELPERS or kept.op_type == node.op_type):
                    return kept
        return None

    def absorbed_by(self, node: ir.Node) -> ir.Node | None:
        """Return the node that a fused node is a part of; None if there is no trace of it."""
        for _ in range(_STEPS):
            following = users(node.outputs[0])
            if len(following) != 1:
                return None
            node = following[0]
            found = self.counterpart(node)
            if found is not None:
                return found
        return None


def runs_as_integers(node: ir.Node) -> bool:
    """Return whether a node of the optimized graph computes with integers."""
    return is_integer_operator(node.op_type) or (node.op_type in MOVING and _is_integer(node.inputs[0]))


def _is_integer(value: ir.Value | None) -> bool:
    """Return whether a value has quantized integers.

    A value that ONNX Runtime added has no type, so that its producer decides.
    """
    if value is None:
        return False
    if value.dtype is not None:
        return value.dtype in INTEGERS
    node = value.producer()
    if node is None:
        return False
    return node.op_type.startswith(("QLinear", "QuantizeLinear", "QGemm")) or (
        node.op_type in MOVING and _is_integer(node.inputs[0])
    )
