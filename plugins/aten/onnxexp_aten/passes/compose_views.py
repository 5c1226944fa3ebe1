"""Compose chains of Transpose, Reshape, Squeeze, Unsqueeze and Slice."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir

from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.attention_rules import packed_attention
from onnxexp_aten.passes.linear_rules import bias_before_transpose, gemm_of_transposes, product_before_transpose, rows_of_linear
from onnxexp_aten.passes.select_rules import selected
from onnxexp_aten.passes.view_rules import (
    perm_of,
    reshaped_by,
    sliced,
    squeezed_by,
    transposed,
    unsqueezed_by,
)

__all__ = ["ComposeViews"]


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
