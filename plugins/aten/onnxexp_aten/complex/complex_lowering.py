"""Lower nodes with complex arguments or results.

An operator either has its own entry in `complex_aten`, or it is linear with real coefficients. In the second case the real
symbolic lowers the real and the imaginary parts one after the other.
"""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, ComplexTensor, Tensor
from onnxexp.graph import Node, TensorType
from onnxexp_aten.complex.complex_numbers import REAL_DTYPES, is_complex, paired, real_of
from onnxexp_aten.tables import aten, complex_aten

_BY_PARTS = frozenset(
    f"aten::{name}"
    for name in """
    _reshape_alias _unsafe_view alias atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cat chunk
    clone column_stack concat concatenate constant_pad_nd contiguous cumsum detach diag diag_embed diagonal dsplit
    dstack expand expand_as fft_fftshift fft_ifftshift flatten flip fliplr flipud gather hsplit hstack index
    index_select lift_fresh lift_fresh_copy mT masked_select mean meshgrid movedim moveaxis narrow neg negative nansum numpy_T
    pad permute ravel repeat repeat_interleave reshape reshape_as roll rot90 select slice split split_with_sizes squeeze stack
    sum sum_to_size swapaxes swapdims t take take_along_dim tensor_split tile trace transpose tril triu unbind unflatten
    unfold unsafe_chunk unsafe_split unsqueeze view view_as vsplit vstack
    """.split()  # noqa: SIM905
)
"""Linear operators with real coefficients, applied to each part."""
_WRITTEN = {
    **dict.fromkeys((f"aten::{name}_scatter" for name in ("as_strided", "diagonal", "select", "slice")), 1),
    **dict.fromkeys((f"aten::{name}" for name in ("index_put", "masked_fill", "masked_scatter")), 2),
    **dict.fromkeys((f"aten::{name}" for name in ("index_add", "index_copy", "index_fill", "scatter", "scatter_add")), 3),
}
"""Operators that write into a copy of their first argument, and the position of what is written. Either may be real."""


def lower_complex(op: Builder, node: Node) -> Any:
    """Lower a node with complex arguments or results.

    Returns None for any other node, for a node without a rule, and for an operator that a symbolic of the user's lowers.
    """
    if not op.context.options.user_claims.isdisjoint((node.op, node.op.partition(".")[0])):
        return None
    symbolic, name = complex_aten.find(node.op, op.opset), node.op.partition(".")[0]
    written = _WRITTEN.get(name) if "reduce" not in node.op else None
    if (symbolic is None and name not in _BY_PARTS and written is None) or not _has_complex(node):
        return None
    if symbolic is not None:
        return symbolic.function(op, *op.args)
    symbolic = aten.find(node.op, op.opset)
    if symbolic is None:
        return None
    args = list(op.args)
    for place in () if written is None else (0, written):
        args[place] = _complex(op, args[place])
    real, imag = (symbolic.function(op, *[_part(op, arg, which) for arg in args]) for which in ("real", "imag"))
    if isinstance(real, Tensor):
        return ComplexTensor(real, imag)
    return [ComplexTensor(one, other) for one, other in zip(real, imag, strict=True)]


def _complex(op: Builder, arg: Any) -> Any:
    return paired(op, arg, real_of(op)) if isinstance(arg, Tensor) else complex(arg)


def _has_complex(node: Node) -> bool:
    for value in (*node.outputs, *node.inputs()):
        type_ = value.type
        if isinstance(type_, TensorType) and type_.dtype in REAL_DTYPES:
            return True
    return False


def _part(op: Builder, arg: Any, which: str) -> Any:
    """Return an argument of the real symbolic, for the real or the imaginary part.

    In a list with complex tensors, real tensors become complex as well.
    """
    if isinstance(arg, (list, tuple)):
        mixed = any(is_complex(element) for element in arg)
        dtype = next((REAL_DTYPES[element.dtype] for element in arg if is_complex(element)), None)
        return [_part(op, paired(op, each, dtype) if mixed and isinstance(each, Tensor) else each, which) for each in arg]
    if isinstance(arg, complex):
        return arg.real if which == "real" else arg.imag
    if not is_complex(arg):
        return arg
    whole = paired(op, arg)
    return whole.real if which == "real" else whole.imag
