"""Convolutions and matrix products as quantized operators."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, constant_of, sole_user
from onnxexp_quantized.styles.operands import Operand, activation, int32_bias, quantized_result, weight_of
from onnxexp_quantized.styles.weight_only_products import convert_weight_only

MICROSOFT = "com.microsoft"
_FLOAT = ir.DataType.FLOAT


def convolution(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert Conv to QLinearConv, where a QuantizeLinear follows."""
    x, weight, result = activation(node.inputs[0]), weight_of(node.inputs[1], 0), quantized_result(node.outputs[0])
    if x is None or weight is None or result is None or x.dtype != result.dtype:
        return False
    kernel = weight.operand(editor)
    inputs = [*x.inputs, *kernel.inputs, *result.parameters]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = int32_bias(node, 2, x, kernel, editor)
        if bias is None:
            return False
        inputs.append(bias)
    made = editor.insert(node, "QLinearConv", inputs, dict(node.attributes), like=result.integers, dtype=result.dtype)
    editor.replace(result.integers, made)
    return True


@dataclasses.dataclass(frozen=True)
class _Product:
    """A matrix product of quantized operands.

    Attributes:
        a, b: The operands; `b` is [K, N].
        last: The node whose result is that of the product, bias included.
        bias: The index of the bias among the inputs of `last`; None without a bias.
    """

    a: Operand
    b: Operand
    last: ir.Node
    bias: int | None

    @property
    def result(self) -> ir.Value:
        return self.last.outputs[0]


def _gemm(node: ir.Node, editor: GraphEditor) -> _Product | None:
    plain = all(node.attributes.get_float(name, 1.0) == 1.0 for name in ("alpha", "beta"))
    if not plain or node.attributes.get_int("transA", 0) == 1:
        return None
    transposed = node.attributes.get_int("transB", 0) == 1
    a, weight = activation(node.inputs[0]), weight_of(node.inputs[1], 0 if transposed else 1)
    if a is None or weight is None:
        return None
    bias = 2 if len(node.inputs) > 2 and node.inputs[2] is not None else None
    return _Product(a, weight.operand(editor, transposed), node, bias)


def _matmul(node: ir.Node, editor: GraphEditor) -> _Product | None:
    """Return a MatMul, with the sum after it where that adds a constant bias."""
    a, weight = activation(node.inputs[0]), weight_of(node.inputs[1], 1)
    b = activation(node.inputs[1]) if weight is None else weight.operand(editor)
    if a is None or b is None or (weight is not None and b.integers.shape is not None and len(b.integers.shape) != 2):
        return None
    total = sole_user(node.outputs[0])
    if weight is None or total is None or total.op_type != "Add" or total.domain:
        return _Product(a, b, node, None)
    index = 1 if total.inputs[0] is node.outputs[0] else 0
    bias = constant_of(total, index)
    if bias is None or bias.dim() != 1 or b.integers.shape is None or bias.numel() != b.integers.shape[1]:
        return _Product(a, b, node, None)
    return _Product(a, b, total, index)


def integer_gemm(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert Gemm to a scaled MatMulInteger, and an Add of its bias.

    ONNX has no quantized product with a bias."""
    product = _gemm(node, editor)
    if product is None:
        return False
    result = _scaled_product(product, node, editor)
    if product.bias is not None:
        result = editor.insert(node, "Add", [result, node.inputs[product.bias]], like=node.outputs[0], dtype=_FLOAT)
    editor.replace(node.outputs[0], result)
    return True


def integer_matmul(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert MatMul to QLinearMatMul, or to MatMulInteger for a float result."""
    product = _matmul(node, editor)
    if product is None:
        return False
    if not _quantized_matmul(product, node, editor):
        editor.replace(node.outputs[0], _scaled_product(product, node, editor))
    return True


def gemm_of_microsoft(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert Gemm to QGemm, or to MatMulNBits for a float operand."""
    product = _gemm(node, editor)
    return convert_weight_only(node, editor) if product is None else _qgemm(product, editor)


def matmul_of_microsoft(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert MatMul to QGemm, QLinearMatMul, MatMulIntegerToFloat or MatMulNBits."""
    product = _matmul(node, editor)
    if product is None:
        return convert_weight_only(node, editor)
    flat = node.outputs[0].shape is not None and len(node.outputs[0].shape) == 2
    if flat and product.bias is not None and _qgemm(product, editor):
        return True
    if product.bias is None and _quantized_matmul(product, node, editor):
        return True
    (a, a_scale, a_zero), (b, b_scale, b_zero) = product.a.inputs, product.b.inputs
    bias = None if product.bias is None else product.last.inputs[product.bias]
    inputs = [a, b, a_scale, b_scale, a_zero, b_zero, bias]
    result = product.result
    made = editor.insert(product.last, "MatMulIntegerToFloat", inputs, like=result, dtype=_FLOAT, domain=MICROSOFT)
    editor.replace(result, made)
    return True


def _qgemm(product: _Product, editor: GraphEditor) -> bool:
    bias = None
    if product.bias is not None:
        bias = int32_bias(product.last, product.bias, product.a, product.b, editor)
        if bias is None:
            return False
    inputs, result = [*product.a.inputs, *product.b.inputs, bias], quantized_result(product.result)
    if result is None or result.dtype != product.a.dtype:
        made = editor.insert(product.last, "QGemm", inputs, like=product.result, dtype=_FLOAT, domain=MICROSOFT)
        editor.replace(product.result, made)
        return True
    inputs += result.parameters
    made = editor.insert(product.last, "QGemm", inputs, like=product.result, dtype=result.dtype, domain=MICROSOFT)
    editor.replace(result.integers, made)
    return True


def _quantized_matmul(product: _Product, node: ir.Node, editor: GraphEditor) -> bool:
    result = quantized_result(node.outputs[0])
    if result is None or result.dtype != product.a.dtype:
        return False
    inputs = [*product.a.inputs, *product.b.inputs, *result.parameters]
    made = editor.insert(node, "QLinearMatMul", inputs, like=result.integers, dtype=result.dtype)
    editor.replace(result.integers, made)
    return True


def _scaled_product(product: _Product, node: ir.Node, editor: GraphEditor) -> ir.Value:
    """Emit MatMulInteger times the scales, in float32."""
    like = node.outputs[0]
    inputs = [product.a.integers, product.b.integers, product.a.parameters[1], product.b.parameters[1]]
    sums = editor.insert(node, "MatMulInteger", inputs, like=like, dtype=ir.DataType.INT32)
    floats = editor.insert(node, "Cast", [sums], {"to": int(_FLOAT)}, like=like, dtype=_FLOAT)
    scale = editor.constant(product.a.scale.double() * product.b.scale.double(), torch.float32, f"{like.name}_scale")
    return editor.insert(node, "Mul", [floats, scale], like=like, dtype=_FLOAT)
