"""Compose chains of Transpose, Reshape, Squeeze, Unsqueeze and Slice."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir

from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.linear_rules import bias_before_transpose, gemm_of_transposes, product_before_transpose, rows_of_linear
from onnxexp_aten.passes.matching import producer
from onnxexp_aten.passes.select_rules import selected
from onnxexp_aten.passes.view_rules import (
    known_dims,
    perm_of,
    reshaped,
    reshaped_by,
    sliced,
    squeezed_by,
    transposed,
    unsqueezed_by,
)

__all__ = ["ComposeViews"]


_SWAP = [0, 2, 1, 3]


def packed_attention(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Replace the views that split and join the heads by attributes of Attention."""
    if "q_num_heads" in node.attributes or "kv_num_heads" in node.attributes or len(node.outputs) > 3:
        return None
    tensors = [value for value in node.inputs[:3] if value is not None]
    packed = [_packed(rewriter, x) for x in tensors]
    if len(packed) != 3 or None in packed:
        return None
    batch, heads, length, width = known_dims(node.outputs[0])
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    attributes = {name: each.value for name, each in node.attributes.items()}
    attributes |= {"q_num_heads": heads, "kv_num_heads": known_dims(tensors[1])[1]}
    flat, *presents = rewriter.emit(
        "Attention", [*packed, *node.inputs[3:]], attributes, sizes=[batch, length, heads * width], outputs=len(node.outputs)
    )
    for old, new in zip(node.outputs[1:], presents, strict=True):
        rewriter.take_place(old, new)
    return transposed(rewriter, reshaped(rewriter, flat, [batch, length, heads, width]), _SWAP)


def _packed(rewriter: Rewriter, x: ir.Value) -> ir.Value | None:
    """Undo the view that split the heads of [batch, heads, length, width].

    Returns [batch, length, heads * width], or None where there was no such view.
    """
    sizes = known_dims(x)
    if producer(x, "Transpose") is None or len(sizes) != 4:
        return None
    batch, heads, length, width = sizes
    if not isinstance(heads, int) or not isinstance(width, int):
        return None
    joined = reshaped(rewriter, transposed(rewriter, x, _SWAP), [batch, length, heads * width])
    return None if producer(joined, "Reshape") else joined


def _transposed_by(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    return None if node.inputs[0] is None else transposed(rewriter, node.inputs[0], perm_of(node))


def _reshaped_by(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    return rows_of_linear(rewriter, node) or reshaped_by(rewriter, node)


class ComposeViews(RewritePass):
    """Compose views, also with the products, selections and attentions around them."""

    rules = MappingProxyType(
        {
            "Transpose": _transposed_by,
            "Reshape": _reshaped_by,
            "Unsqueeze": unsqueezed_by,
            "Squeeze": squeezed_by,
            "Slice": sliced,
            "Gather": selected,
            "MatMul": product_before_transpose,
            "Add": bias_before_transpose,
            "Gemm": gemm_of_transposes,
            "Attention": packed_attention,
        }
    )
