"""The plugin: lower attention to one operator, and fuse what is around it."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

import onnxexp
from onnxexp_aten.passes.compose_views import ComposeViews
from onnxexp_aten.passes.fuse_rotary import FuseRotary
from onnxexp_ort.cached_attention import PRESENTS, attend_with_cache
from onnxexp_ort.choose_attention import ChooseAttention
from onnxexp_ort.domain import DOMAIN
from onnxexp_ort.fuse_quick_gelu import FuseQuickGelu
from onnxexp_ort.fuse_skip_norms import FuseSkipNorms

__all__ = ["ContribOperators"]

_FIRST_WITH_ATTENTION = 23
"""The first opset whose own Attention and RotaryEmbedding run at least as fast."""


class ContribOperators:
    """Lower to ONNX Runtime's own operators where they compute exactly the same."""

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: onnxexp.Node) -> Any:
        """Lower attention with a key-value cache, see `attend_with_cache`."""
        if node.op != "aten::scaled_dot_product_attention" or op.opset >= _FIRST_WITH_ATTENTION:
            return None
        return attend_with_cache(op)

    @onnxexp.hookimpl
    def post_pass(self, options: onnxexp.Options, context: onnxexp.ExportContext) -> list[ir.passes.InPlacePass]:
        """Fuse rotary embeddings, sums with their norms, and activations."""
        fusions: list[ir.passes.InPlacePass] = [FuseSkipNorms(), FuseQuickGelu()]
        if options.opset >= _FIRST_WITH_ATTENTION:
            return fusions
        choice = ChooseAttention(context.plugin_data.setdefault(PRESENTS, []))
        return [FuseRotary(options, DOMAIN), ComposeViews(), choice, *fusions]
