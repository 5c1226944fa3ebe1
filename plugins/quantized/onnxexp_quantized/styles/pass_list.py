"""The passes over the finished model, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnxexp import OptionError, Options
from onnxexp_quantized.passes.averages import Averages
from onnxexp_quantized.passes.check_weights import CheckWeights
from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, producer, sole_user
from onnxexp_quantized.passes.int32_bias import Int32Bias
from onnxexp_quantized.passes.integer_layout import DequantizeAfterLayout, QuantizeBeforeLayout
from onnxexp_quantized.passes.own_biases import OwnBiases
from onnxexp_quantized.passes.unsigned_activations import UnsignedActivations
from onnxexp_quantized.styles.operator_style import OperatorStyle
from onnxexp_quantized.weights.dequantize_by_arithmetic import FloatWeights
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


class FloatKernels(QuantizedPass):
    """Put a Clip without bounds before an operator that is faster in float.

    ONNX Runtime fuses an operator with the DequantizeLinear and QuantizeLinear next to it. It leaves such a Clip in the graph.

    Measured on 8×12×128×128 integers: softmax takes 5.9 ms in QLinearSoftmax, and 6 percent of the results are one step off; in
    float, with both conversions, it takes 1.7 ms. An average of windows takes 1.6 ms in QLinearAveragePool, and 0.25 ms in float.
    """

    operators = frozenset({"Softmax", "AveragePool"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        x, quantize = node.inputs[0], sole_user(node.outputs[0])
        if x is None or producer(x, "DequantizeLinear") is None or quantize is None or quantize.op_type != "QuantizeLinear":
            return False
        node.replace_input_with(0, editor.insert(node, "Clip", [x], like=x, dtype=ir.DataType.FLOAT))
        return True
