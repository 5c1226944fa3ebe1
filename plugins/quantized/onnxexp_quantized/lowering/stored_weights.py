"""Keep quantized weights as they are stored.

Folding a Cast of an int8 weight would write four times as many bytes. The Cast stays a node, and the pass `FoldScales` turns it
into a DequantizeLinear.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Node, TensorType
from onnxexp.torch_ops import overload
from onnxexp_quantized.lowering.affine import FLOAT8, kept_cast

_CASTS = frozenset({"aten::to", "aten::_to_copy", "aten::float", "aten::type_as", "prims::convert_element_type"})
_ARITHMETIC = frozenset({"aten::add", "aten::sub", "aten::mul", "aten::div"})
_VIEWS = frozenset({"aten::t", "aten::transpose", "aten::permute", "aten::numpy_T", "aten::contiguous", "aten::detach"})
_NARROW = FLOAT8 | {torch.int8, torch.uint8}

table = SymbolicTable("export")


@table("access_subclass_inner_tensor")
def access_subclass_inner_tensor(op: Builder, src_subclass_tensor: Tensor, attr: str) -> Tensor:
    """access_subclass_inner_tensor(Tensor src_subclass_tensor, str attr) -> Tensor"""
    subclass = src_subclass_tensor.const
    if subclass is None:
        op.decline("the tensor is no parameter of the model")
    inner = getattr(subclass, attr)  # the operator's own meaning: an attribute by name
    return op.wrap_constant(inner.detach(), f"{src_subclass_tensor.name}.{attr}")


def keep_stored(op: Builder, node: Node) -> Any:
    """Lower a conversion of a quantized weight to float, without folding it.

    Returns None for other nodes.
    """
    packet = node.op.partition(".")[0]
    if packet in _VIEWS:
        return _float8_view(op, node)
    if packet not in _CASTS and packet not in _ARITHMETIC:
        return None
    result = node.outputs[0].type
    if not isinstance(result, TensorType) or result.dtype is None or not result.dtype.is_floating_point:
        return None
    if result.dtype in FLOAT8:
        return None
    x, *rest = op.args
    if not isinstance(x, Tensor) or x.const is None or x.dtype not in _NARROW or x.const.dim() < 2:
        return None
    if packet in _CASTS:
        return kept_cast(op, x, result.dtype)
    return op.torch_op(node.op, kept_cast(op, x, result.dtype), *rest)


def _float8_view(op: Builder, node: Node) -> Tensor | None:
    """Return a view of a float8 weight; Transpose takes float8 from opset 21 on."""
    x, *rest = op.args
    view = overload(node.op)
    if not isinstance(x, Tensor) or x.const is None or x.dtype not in FLOAT8 or view is None:
        return None
    return op.wrap_constant(view(x.const.detach(), *rest), x.name)
