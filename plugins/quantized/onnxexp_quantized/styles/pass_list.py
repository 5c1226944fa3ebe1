"""The passes over the finished model, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnxexp import OptionError, Options
from onnxexp_quantized.passes.averages import Averages
from onnxexp_quantized.passes.check_weights import CheckWeights
from onnxexp_quantized.passes.float_kernels import FloatKernels
from onnxexp_quantized.passes.int32_bias import Int32Bias
from onnxexp_quantized.passes.integer_layout import DequantizeAfterLayout, QuantizeBeforeLayout
from onnxexp_quantized.passes.own_biases import OwnBiases
from onnxexp_quantized.passes.unsigned_activations import UnsignedActivations
from onnxexp_quantized.styles.operator_style import OperatorStyle
from onnxexp_quantized.weights.float_weights import FloatWeights
from onnxexp_quantized.weights.fold_scales import FoldScales
from onnxexp_quantized.weights.layout import ArrangeWeights
from onnxexp_quantized.weights.narrow import NarrowWeights


def passes_for(style: str, int8_products: str, options: Options, plugin_data: Mapping[Any, Any]) -> list[ir.passes.InPlacePass]:
    """Return the passes for a style.

    Those that round, or only serve ONNX Runtime, are for the target "onnxruntime" alone.

    Raises OptionError for ONNX Runtime's operators in a file for every runtime.
    """
    weights = [ArrangeWeights(), NarrowWeights()]
    folded = FoldScales(plugin_data, every=int8_products == "all")
    weights = [*weights, FloatWeights()] if int8_products == "none" else [folded, *weights]
    passes: list[ir.passes.InPlacePass] = [*weights, DequantizeAfterLayout(), QuantizeBeforeLayout()]
    if options.target == "onnxruntime":
        passes = [Averages(), *passes, UnsignedActivations(), Int32Bias()]
    elif style == "ort":
        raise OptionError(f"style='ort' writes operators of ONNX Runtime, and the target is {options.target!r}: choose one")
    styled = [*passes, OperatorStyle(style)]
    if options.target == "onnxruntime":
        styled += [OwnBiases(), FloatKernels()]
    return [*styled, CheckWeights(plugin_data)]
