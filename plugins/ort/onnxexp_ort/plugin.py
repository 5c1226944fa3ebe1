"""The plugin: lower attention to one operator, and fuse what is around it."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

import onnxexp
from onnxexp.graph import Node
from onnxexp_aten.passes.compose_views import ComposeViews
from onnxexp_aten.passes.fuse_rotary import FuseRotary
from onnxexp_ort.cached_attention import FIRST_WITH_ATTENTION, PRESENTS, ChooseAttention, attend_with_cache
from onnxexp_ort.cast_bfloat16 import CastBfloat16
from onnxexp_ort.domain import DOMAIN
from onnxexp_ort.fuse_quick_gelu import FuseQuickGelu
from onnxexp_ort.fuse_skip_norms import FuseSkipNorms


class ContribOperators:
    """Lower to ONNX Runtime's own operators where they compute exactly the same."""

    @onnxexp.hookimpl(namespaces=["aten"])
    def lower_node(self, op: onnxexp.Builder, node: Node) -> Any:
        """Lower attention with a key-value cache, see `attend_with_cache`."""
        return attend_with_cache(op) if node.op == "aten::scaled_dot_product_attention" else None

    @onnxexp.hookimpl
    def post_pass(self, options: onnxexp.Options, context: onnxexp.ExportContext) -> list[ir.passes.InPlacePass]:
        """Fuse rotary embeddings and activations; finish the choice of attention."""
        rotary = [FuseRotary(options, DOMAIN)] if options.opset < FIRST_WITH_ATTENTION else []
        choice = ChooseAttention(context.plugin_data.setdefault(PRESENTS, []))
        return [*rotary, ComposeViews(), choice, FuseQuickGelu()]


class SkipNorms:
    """Fuse a residual sum with its norm.

    The operators are SkipLayerNormalization and SkipSimplifiedLayerNormalization. It is no part of the target, since they are
    slower than a sum and a norm on the CPU.
    """

    @onnxexp.hookimpl(trylast=True)  # after the aten plugin has found the norms
    def post_pass(self) -> list[ir.passes.InPlacePass]:
        """Fuse sums with their norms."""
        return [FuseSkipNorms()]


class Bfloat16OnCpu:
    """Let a model of bfloat16 run on ONNX Runtime's CPU provider.

    It is no part of the target, since accelerators have kernels for bfloat16: Casts would slow the model down there.
    """

    @onnxexp.hookimpl(trylast=True)  # after the fusions of other plugins
    def post_pass(self) -> list[ir.passes.InPlacePass]:
        """Write Casts around what the provider does not compute in bfloat16."""
        return [CastBfloat16()]
