"""Which values are certainly contiguous.

This decides whether ``reshape`` and ``contiguous`` return views or copies.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._functionalize.mutation import MutationInfo, is_tensor, packet
from onnxexp._functionalize.node_emitter import is_static
from onnxexp._neutral_graph import Dim, Graph, Node, TensorType, Value, replace_values, values_in
from onnxexp._torch_ops.schemas import overload

_ALWAYS = frozenset(
    f"aten::{name}"
    for names in ["contiguous new_zeros new_ones new_full new_empty", "matmul mm bmm addmm linear", "gather index_select take"]
    for name in names.split()
)
_LIKE_FIRST = frozenset(
    f"aten::{name}"
    for names in [
        "slice_scatter select_scatter diagonal_scatter scatter scatter_add scatter_reduce",
        "index_put index_add index_copy index_fill put",
    ]
    for name in names.split()
)
"""Operators whose result has the strides of the first argument."""
_IF_INPUTS_ARE = frozenset(
    f"aten::{name}"
    for names in [
        "clone zeros_like ones_like full_like empty_like rand_like randn_like randint_like bernoulli _to_copy to",
        "lift_fresh_copy lift_fresh dropout alias detach view _unsafe_view reshape flatten unflatten ravel view_as reshape_as",
        "type_as squeeze unsqueeze all any amax amin aminmax argmax argmin argsort bincount bucketize count_nonzero cummax",
        "cummin cumprod cumsum diff kthvalue linalg_vector_norm log_softmax logcumsumexp logsumexp masked_select max mean",
        "median min mode msort nanmean nanmedian nansum norm prod searchsorted softmax sort std std_mean sum topk var var_mean",
        "cat channel_shuffle column_stack constant_pad_nd diag diag_embed diagonal_scatter dstack flip fliplr flipud gather",
        "hstack index_add index_copy index_fill index_put index_select masked_fill masked_scatter one_hot pad pixel_shuffle",
        "pixel_unshuffle repeat repeat_interleave roll scatter scatter_add scatter_reduce select_scatter slice_scatter stack",
        "take take_along_dim tile tril triu vstack where addmm baddbmm cdist conv1d conv2d conv3d conv_transpose1d",
        "conv_transpose2d conv_transpose3d cross embedding inner kron linear matmul mv outer tensordot adaptive_avg_pool1d",
        "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d",
        "avg_pool2d avg_pool3d batch_norm floor_divide glu group_norm instance_norm layer_norm max_pool1d max_pool2d",
        "max_pool2d_with_indices max_pool3d max_pool3d_with_indices prelu rms_norm upsample_bicubic2d upsample_bilinear2d",
        "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d",
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d block_diag cosine_similarity hardswish",
        "isclose isfinite isin",
    ]
    for name in names.split()
)
"""Operators whose result is contiguous if all their inputs are; torch's samples of them are (tests/core/test_contiguity.py)."""
_ALONG = {
    **dict.fromkeys(("aten::select", "aten::slice", "aten::narrow", "aten::unbind"), 1),
    **dict.fromkeys((f"aten::{name}" for name in ("split", "split_with_sizes", "chunk", "tensor_split")), 2),
}
"""Views of parts along one axis, and the index of that argument."""
_BY_LAYOUT = frozenset({"aten::index", "aten::einsum", "aten::rot90"})
"""Operators that are neither views nor pointwise, whose strides torch computes without data as with them, at any sizes."""
_OWN_LAYOUT = frozenset(
    f"aten::{name}"
    for name in """
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d batch_norm bincount channel_shuffle conv2d
    conv_transpose2d floor_divide masked_select one_hot pad pixel_shuffle upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    """.split()  # noqa: SIM905
)
"""Operators of `_IF_INPUTS_ARE` whose strides may be others without data."""
_AS_WITHOUT_DATA = _BY_LAYOUT | (_IF_INPUTS_ARE - _OWN_LAYOUT)
"""Operators whose strides torch computes without data as with them: see tests/core/test_contiguity.py."""
_GAPS = frozenset(
    {*_ALONG, *(f"aten::{name}" for name in ("hsplit", "vsplit", "dsplit", "unsqueeze", "squeeze", "alias", "detach"))}
)
"""Views that keep the order of the strides, so that a pointwise result is contiguous."""
_NEVER = frozenset({"aten::empty_strided", "aten::empty_permuted", "aten::as_strided"})


class Contiguity:
    """The contiguous values; inputs count as such, since ONNX has no strides.

    Attributes:
        values: The values that are certainly contiguous, among those of the nodes visited so far.
    """

    def __init__(self, graph: Graph) -> None:
        self.values = {*graph.inputs, *(value for value, tensor in graph.params.items() if tensor.is_contiguous())}
        self._strided: dict[Value, torch.Tensor] = {}
        self._ordered: set[Value] = set()

    def visit(self, node: Node, known: MutationInfo) -> None:
        """Note the outputs of a node, after its inputs."""
        if known.written and known.changes_strides:
            self.values.clear()  # other names of the same tensor are among them; rare enough to forget all
            self._strided.clear()
            self._ordered.clear()
        elif self._makes_contiguous(node, known):
            self.values.update(node.outputs)
        else:
            name = packet(node.op)
            if known.viewed is not None or known.pointwise or name in _AS_WITHOUT_DATA:
                self._visit_layout(node)
            if name in _GAPS and self._is_ordered(node.args[0]):
                self._ordered.update(node.outputs)

    def _is_ordered(self, value: Any) -> bool:
        """Return whether a value is contiguous but for gaps."""
        return value in self.values or value in self._ordered

    def layout(self, value: Any) -> torch.Tensor | None:
        """Return a tensor without data that has a value's strides; None if not certain."""
        if value in self._strided:
            return self._strided[value]
        if value not in self.values or not is_tensor(value) or value.type.dtype is None or not is_static(value.type.sizes):
            return None
        return torch.empty(value.type.sizes, dtype=value.type.dtype, device="meta")

    def _visit_layout(self, node: Node) -> None:
        """Note the strides of a result, as torch computes them without data."""
        args: list[Any] = replace_values(node.args, self.layout)
        if any(arg is None and given is not None for arg, given in zip(*map(pytree.tree_leaves, (args, node.args)), strict=True)):
            if packet(node.op) not in _BY_LAYOUT or not self.values.issuperset(node.inputs()):
                return
            args = replace_values(node.args, _stand_in())  # a result that is contiguous for these sizes is so for all
        if any(isinstance(arg, torch.device) for arg in args):
            return
        if node.op.startswith("aten::") and packet(node.op) not in _NEVER - {"aten::as_strided"}:
            with contextlib.suppress(RuntimeError, TypeError):  # what torch refuses without data has no certain layout
                results = pytree.tree_leaves(on_meta(node.op, args))
                if len(results) == len(node.outputs):
                    for value, result in zip(node.outputs, results, strict=True):
                        self._note(value, result)

    def _note(self, value: Value, result: Any) -> None:
        """Note the strides of a value, those of a tensor without data."""
        if isinstance(result, torch.Tensor) and isinstance(value.type, TensorType):
            if is_static(value.type.sizes):
                self._strided[value] = result
            self.values.update([value] if result.is_contiguous() else [])

    def _makes_contiguous(self, node: Node, known: MutationInfo) -> bool:
        name, asked = packet(node.op), None if known.memory_format is None else node.args[known.memory_format]
        if known.opaque or name in _NEVER or asked not in (None, torch.contiguous_format, torch.preserve_format, 0):
            return False
        if known.written:
            return self.values.issuperset(filter(is_tensor, (node.args[index] for index in known.written)))
        contiguous = asked in (torch.contiguous_format, 0)
        if contiguous or name in _ALWAYS or (name == "aten::pad" and _has_few_axes(node.outputs[0])):
            return True
        read = node.args if known.viewed is None else node.args[known.viewed]  # view_as and the like read only sizes of others
        read = node.args[0] if name in _LIKE_FIRST else read
        inputs = set(filter(is_tensor, values_in(read)))
        if not inputs:
            return known.viewed is None
        if known.pointwise and known.viewed is None and all(map(self._is_ordered, inputs)):
            return True
        plain = name in _IF_INPUTS_ARE or name in _LIKE_FIRST or known.pointwise or (known.viewed is not None and _is_rows(node))
        return plain and self.values.issuperset(inputs)


def _stand_in() -> Callable[[Value], torch.Tensor | None]:
    """Return a function that makes a value's tensor without data, at some sizes."""
    numbers = itertools.count(2)
    known: dict[Dim, int] = defaultdict(lambda: next(numbers))

    def made(value: Value) -> torch.Tensor | None:
        if not isinstance(value.type, TensorType) or value.type.sizes is None:
            return None
        sizes = [size if isinstance(size, int) else known[size] for size in value.type.sizes]
        return torch.empty(sizes, dtype=value.type.dtype, device="meta")

    return made


def _has_few_axes(value: Value) -> bool:
    """Return whether a tensor has so few axes that no other memory format is for it."""
    return isinstance(value.type, TensorType) and value.type.sizes is not None and len(value.type.sizes) < 4


def on_meta(op: str, args: Iterable[Any]) -> Any:
    """Call an operator whose tensors are on the meta device, and stay there."""
    operator: Any = overload(op)
    there = (torch.device("meta") if isinstance(arg, torch.device) else arg for arg in args)
    return operator(**{argument.name: arg for argument, arg in zip(operator._schema.arguments, there, strict=False)})


def _is_rows(node: Node) -> bool:
    """Return whether a view is a run of whole rows."""
    name = packet(node.op)
    return name in _ALONG and node.args[_ALONG[name]] == 0 and (name != "aten::slice" or node.args[4] == 1)
