"""Which values are certainly contiguous.

This decides whether ``reshape`` and ``contiguous`` return views or copies.
"""

from __future__ import annotations

import torch

from onnxexp.functionalize.mutation import Facts, is_tensor, packet, restrides
from onnxexp.neutral_graph import Graph, Node

__all__ = ["Contiguity"]

_ALWAYS = frozenset(f"aten::{name}" for name in ("contiguous", "new_zeros", "new_ones", "new_full", "new_empty", "mm", "bmm"))
_IF_INPUTS_ARE = frozenset(
    f"aten::{name}"
    for name in [
        *("clone", "zeros_like", "ones_like", "full_like", "empty_like", "_to_copy", "to", "lift_fresh_copy"),
        *("lift_fresh", "dropout", "alias", "detach", "view", "reshape", "flatten", "unflatten", "ravel", "view_as"),
        *("reshape_as", "squeeze", "unsqueeze", "cat", "stack", "index_select", "gather", "index_put", "masked_fill"),
        *("where", "linear", "addmm", "matmul", "embedding", "layer_norm", "softmax", "log_softmax", "conv1d", "conv2d"),
    ]
)
"""Operators whose result is contiguous if all their inputs are."""
_NEVER = frozenset({"aten::empty_strided", "aten::empty_permuted", "aten::as_strided"})


class Contiguity:
    """The contiguous values; inputs count as such, since ONNX has no strides.

    Attributes:
        values: The values that are certainly contiguous, among those of the nodes visited so far.
    """

    def __init__(self, graph: Graph) -> None:
        self.values = {*graph.inputs, *(value for value, tensor in graph.params.items() if tensor.is_contiguous())}

    def visit(self, node: Node, known: Facts) -> None:
        """Note the outputs of a node, after its inputs."""
        if known.written and restrides(node.op):
            self.values.clear()  # other names of the same tensor are among them; rare enough to forget all
        elif self._makes_contiguous(node, known):
            self.values.update(node.outputs)

    def _makes_contiguous(self, node: Node, known: Facts) -> bool:
        name = packet(node.op)
        if known.opaque or name in _NEVER or _other_format(node, known):
            return False
        if known.written:
            return self.values.issuperset(filter(is_tensor, (node.args[index] for index in known.written)))
        contiguous = known.memory_format is not None and node.args[known.memory_format] in (torch.contiguous_format, 0)
        if contiguous or name in _ALWAYS:
            return True
        inputs = [value for value in node.inputs() if is_tensor(value)]
        if not inputs:
            return known.viewed is None
        if known.viewed is not None and name not in _IF_INPUTS_ARE:
            return _first_rows(node) and inputs[0] in self.values
        return (name in _IF_INPUTS_ARE or known.pointwise) and self.values.issuperset(inputs)


def _first_rows(node: Node) -> bool:
    """Whether a view is a run of whole rows."""
    if node.op == "aten::select.int":
        return bool(node.args[1] == 0)
    return node.op == "aten::slice.Tensor" and node.args[1] == 0 and node.args[4] == 1


def _other_format(node: Node, known: Facts) -> bool:
    plain = (None, torch.contiguous_format, torch.preserve_format, 0)
    return known.memory_format is not None and node.args[known.memory_format] not in plain
