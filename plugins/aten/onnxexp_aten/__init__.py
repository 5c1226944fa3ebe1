"""onnxexp-plugin-aten: symbolics of torch's own operators, from opset 9 on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import onnx_ir as ir

import onnxexp
from onnxexp.frontends import DynamicSpec
from onnxexp.graph import Node
from onnxexp_aten.capture.export_patches import keep_operators_whole, redirect_traced, replace_in_files
from onnxexp_aten.complex.complex_lowering import lower_complex
from onnxexp_aten.passes.allow_zero_sizes import AllowZeroSizes
from onnxexp_aten.passes.bfloat16_kernels import WarnOfBfloat16
from onnxexp_aten.passes.compose_views import ComposeViews
from onnxexp_aten.passes.find_equal_bags import FindEqualBags
from onnxexp_aten.passes.find_small_sizes import FindSmallSizes
from onnxexp_aten.passes.flatten_concat import FlattenConcat
from onnxexp_aten.passes.fold_batch_norm import FoldBatchNorm
from onnxexp_aten.passes.fuse_attention import FuseCachedAttention, FuseGroupedAttention
from onnxexp_aten.passes.fuse_mul_chains import FuseMulChains
from onnxexp_aten.passes.fuse_rotary import FuseRotary
from onnxexp_aten.passes.input_sizes import SPEC
from onnxexp_aten.passes.unname_sizes import UnnameSizes
from onnxexp_aten.tables import aten

__all__ = ["Aten", "aten", "plugin"]


class Aten:
    """The plugin: torch's own operators, and complex numbers as pairs of real ones."""

    symbolics = aten

    @onnxexp.hookimpl
    def capture_context(self, context: onnxexp.ExportContext) -> AbstractContextManager[None]:
        """Keep recurrent layers and data-dependent operators whole, and sizes symbolic."""
        return keep_operators_whole(context)

    @onnxexp.hookimpl(tryfirst=True)
    def capture(self, model: Any, spec: DynamicSpec, options: onnxexp.Options, context: onnxexp.ExportContext) -> None:
        """Prepare a trace, and store the dynamic axes for the passes.

        Other frontends capture the model.
        """
        context.plugin_data[SPEC] = spec
        replace_in_files(context, model)
        if options.capture == "trace":
            redirect_traced(context)

    @onnxexp.hookimpl(namespaces=["aten", "prims"])
    def lower_node(self, op: onnxexp.Builder, node: Node) -> Any:
        """Lower a node with complex arguments or results, see `lower_complex`."""
        return lower_complex(op, node)

    @onnxexp.hookimpl
    def pre_pass(self, context: onnxexp.ExportContext) -> list[FindEqualBags | FindSmallSizes]:
        """Find equal bags, and small sizes at which the captured graph is wrong."""
        return [FindEqualBags(context.plugin_data), FindSmallSizes(context)]

    @onnxexp.hookimpl
    def post_pass(self, options: onnxexp.Options) -> list[ir.passes.InPlacePass]:
        """Fuse, flatten and fold nodes; allow sizes of 0; remove names of sizes."""
        attention = [FuseGroupedAttention(), FuseCachedAttention(), FuseRotary(options)]
        fusions = [ComposeViews(), FuseMulChains(options), FlattenConcat(), FoldBatchNorm(options)]
        warning = [WarnOfBfloat16()] if options.target == "onnxruntime" else []
        return [*attention, *fusions, AllowZeroSizes(), UnnameSizes(options), *warning]


plugin = Aten()
