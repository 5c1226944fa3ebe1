"""The pass that writes a model in another style than QDQ.

Measured on 64×28×28 elements, as a share of float32 with DequantizeLinear and QuantizeLinear: Add 0.57, Mul 0.66, Concat 0.46,
GlobalAveragePool 0.66, Sigmoid 0.74, LeakyRelu 0.78. Softmax (1.18) and AveragePool (4.8) are slower, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, constant_of, producer, sole_user
from onnxexp_quantized.styles import products
from onnxexp_quantized.styles.operands import Operand, activation, quantized_result
from onnxexp_quantized.styles.products import MICROSOFT

OPERATORS = frozenset({"Add", "Concat", "GlobalAveragePool", "LeakyRelu", "Mul", "Sigmoid"})


def quantized_elementwise(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert an operator between quantized tensors to its QLinear form."""
    given: list[Operand] = []
    result = quantized_result(node.outputs[0])
    for value in node.inputs:
        operand = activation(value)
        if operand is None or result is None or operand.dtype != result.dtype:
            return False
        given.append(operand)
    assert result is not None
    inputs = [value for operand in given for value in operand.inputs]
    inputs = [*result.parameters, *inputs] if node.op_type == "Concat" else [*inputs, *result.parameters]
    attributes = dict(node.attributes)
    made = editor.insert(
        node, f"QLinear{node.op_type}", inputs, attributes, like=result.integers, dtype=result.dtype, domain=MICROSOFT
    )
    editor.replace(result.integers, made)
    return True


_FLOAT = ir.DataType.FLOAT


def dynamic_product(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert a scaled MatMulInteger to an operator of com.microsoft.

    DynamicQuantizeMatMul replaces a DynamicQuantizeLinear too, since it quantizes the operand. MatMulIntegerToFloat takes
    other operands.
    """
    cast = sole_user(node.outputs[0])
    scaled = None if cast is None or cast.op_type != "Cast" else sole_user(cast.outputs[0])
    if cast is None or scaled is None or scaled.op_type != "Mul" or len(node.inputs) != 4:
        return False
    factor = producer(scaled.inputs[1 if scaled.inputs[0] is cast.outputs[0] else 0], "Mul")
    if factor is None or constant_of(node, 1) is None:
        return False
    index = 0 if constant_of(factor, 0) is not None else 1
    scale, zero = constant_of(factor, index), constant_of(node, 3)
    a_scale, b_scale, b_zero = factor.inputs[1 - index], factor.inputs[index], node.inputs[3]
    if scale is None or zero is None or scale.dim() > 1 or not _is_scalar(a_scale):
        return False
    if zero.shape != scale.shape:
        if zero.numel() != 1:
            return False
        b_zero = editor.constant(zero.reshape(()).expand(scale.shape), zero.dtype, "zero_point")
    last, bias = _with_bias(scaled, 1 if scale.dim() == 0 else scale.numel())
    quantize = producer(node.inputs[0], "DynamicQuantizeLinear")
    if quantize is not None and a_scale is quantize.outputs[1] and node.inputs[2] is quantize.outputs[2]:
        operator, inputs = "DynamicQuantizeMatMul", [quantize.inputs[0], node.inputs[1], b_scale, b_zero, bias]
    else:
        operator, inputs = "MatMulIntegerToFloat", [*node.inputs[:2], a_scale, b_scale, node.inputs[2], b_zero, bias]
    made = editor.insert(last, operator, inputs, like=last.outputs[0], dtype=_FLOAT, domain="com.microsoft")
    editor.replace(last.outputs[0], made)
    return True


def _is_scalar(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and all(size == 1 for size in value.shape)


def _with_bias(scaled: ir.Node, columns: int) -> tuple[ir.Node, ir.Value | None]:
    """Return the node that returns the sum with a bias, and the bias."""
    total = sole_user(scaled.outputs[0])
    if total is None or total.op_type != "Add" or total.domain:
        return scaled, None
    index = 1 if total.inputs[0] is scaled.outputs[0] else 0
    bias = constant_of(total, index)
    fits = bias is not None and bias.dim() == 1 and columns in (1, bias.numel())
    return (total, total.inputs[index]) if fits else (scaled, None)


_Rule: TypeAlias = Callable[[ir.Node, GraphEditor], bool]

_OF_ONNX: Mapping[str, _Rule] = {
    "Conv": products.convolution,
    "Gemm": products.integer_gemm,
    "MatMul": products.integer_matmul,
}
_OF_MICROSOFT: Mapping[str, _Rule] = {
    "Conv": products.convolution,
    "Gemm": products.gemm_of_microsoft,
    "MatMul": products.matmul_of_microsoft,
    "MatMulInteger": dynamic_product,
    **dict.fromkeys(OPERATORS, quantized_elementwise),
}
_RULES: Mapping[str, Mapping[str, _Rule]] = {"qdq": {}, "qoperator": _OF_ONNX, "ort": _OF_MICROSOFT}
STYLES = tuple(_RULES)
"""The values of the plugin's option `style`."""


class OperatorStyle(QuantizedPass):
    """Replace operators between DequantizeLinear and QuantizeLinear by quantized ones.

    The style "qoperator" uses ONNX's own operators, "ort" those of com.microsoft too, and "qdq" replaces nothing.
    """

    def __init__(self, style: str) -> None:
        self._rules = _RULES[style]
        self.operators = frozenset(self._rules)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        result = super().call(model)
        if any(node.domain == products.MICROSOFT for node in model.graph.all_nodes()):
            model.graph.opset_imports.setdefault(products.MICROSOFT, 1)
        return result

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        return self._rules[node.op_type](node, editor)
