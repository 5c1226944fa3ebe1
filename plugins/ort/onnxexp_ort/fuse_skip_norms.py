"""Fuse a residual sum with the norm of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

import onnx_ir as ir

from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.fuse_mul_chains import normalized_data
from onnxexp_ort.domain import DOMAIN

_EPSILON = 1e-5
"""The default of LayerNormalization and RMSNormalization."""


class _Norm(NamedTuple):
    """A norm of a sum: its operator in ONNX Runtime, result, scale, bias and epsilon."""

    operator: str
    result: ir.Value
    scale: ir.Value | None
    bias: ir.Value | None
    epsilon: float


def _skip_norm(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """SkipLayerNormalization or SkipSimplifiedLayerNormalization, in place of the sum.

    The summands have one shape. The kernels take two or three axes, and normalize the last one.
    """
    total, sizes = node.outputs[0], rewriter.dims(node.outputs[0])
    alike = sizes is not None and all(rewriter.dims(value) == sizes for value in node.inputs)
    if sizes is None or not alike or len(sizes) not in (2, 3) or total.dtype != ir.DataType.FLOAT:
        return None
    norms = [norm for norm in (_norm(user, total, len(sizes)) for user in dict.fromkeys(total.consumers())) if norm is not None]
    if len(norms) != 1 or any(value is not None and not _weight(value, sizes[-1]) for value in norms[0][2:4]):
        return None
    found = norms[0]
    weights = [found.scale] if found.bias is None else [found.scale, found.bias]
    made = rewriter.emit(
        found.operator, [*node.inputs, *weights], {"epsilon": found.epsilon}, sizes=sizes, outputs=4, domain=DOMAIN
    )
    rewriter.take_place(found.result, made[0])
    return made[3]


def _norm(user: ir.Node, total: ir.Value, rank: int) -> _Norm | None:
    """Return the norm that a consumer of the sum begins."""
    if user.domain or user.inputs[0] is not total:
        return None
    attributes = user.attributes
    if user.op_type in ("LayerNormalization", "RMSNormalization"):
        plain = attributes.get_int("axis", -1) % rank == rank - 1 and len(user.outputs) == 1
        scale, bias = [*user.inputs[1:], None][:2]
        kind = "SkipLayerNormalization" if user.op_type[0] == "L" else "SkipSimplifiedLayerNormalization"
        return _Norm(kind, user.outputs[0], scale, bias, attributes.get_float("epsilon", _EPSILON)) if plain else None
    products = user.outputs[0].consumers() if user.op_type == "Div" else ()
    if len(products) != 1 or products[0].op_type != "Mul" or products[0].domain:
        return None
    scale = next((value for value in products[0].inputs if value is not user.outputs[0]), None)
    found = None if scale is None else normalized_data(scale, user.outputs[0])
    if found is None or found[0] is not total or found[1] != rank - 1:
        return None
    return _Norm("SkipSimplifiedLayerNormalization", products[0].outputs[0], scale, None, found[2])


def _weight(value: ir.Value, width: Any) -> bool:
    """Return whether no node makes a value that has one number for each element."""
    return value.producer() is None and Rewriter.dims(value) == (width,) and value.dtype == ir.DataType.FLOAT


class FuseSkipNorms(RewritePass):
    """Compute ``norm(x + y)`` and ``x + y`` in one pass over the memory."""

    rules = MappingProxyType({"Add": _skip_norm})
