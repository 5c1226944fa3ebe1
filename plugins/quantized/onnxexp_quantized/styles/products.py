"""Convolutions and matrix products as quantized operators.

For weights alone, the operator of com.microsoft has the weight as [N, K / block, bytes of a block], with unsigned integers of 4
or 8 bits and a scale for each block. It computes with activations of 8 bits, as ONNX Runtime does where it fuses a
DequantizeLinear and a MatMul itself.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, constant_of, producer, sole_user
from onnxexp_quantized.styles.operands import Operand, activation, int32_bias, quantized_result, weight_of

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


_BLOCK = 128
"""The block of a weight with one scale for a column."""
_INTEGERS_OF_8_BITS = 4
"""The operator's accuracy level: activations are int8. Level 0, float32, takes 1.2 to 1.4 of the float model's time."""
_STORED = (ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT8, ir.DataType.UINT8)
_Array = npt.NDArray[np.generic]


@dataclasses.dataclass(frozen=True)
class _Packed:
    """A weight as MatMulNBits takes it.

    `zero_points` is None if all zero points are the middle of the range.
    """

    bits: int
    block: int
    rows: int
    columns: int
    integers: _Array
    scales: _Array
    zero_points: _Array | None


def convert_weight_only(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert a product of a float tensor and a quantized constant to MatMulNBits."""
    x, flipped = node.inputs[0], False
    if node.op_type == "Gemm":
        plain = all(node.attributes.get_float(name, 1.0) == 1.0 for name in ("alpha", "beta"))
        if not plain or node.attributes.get_int("transA", 0) == 1:
            return False
        flipped = node.attributes.get_int("transB", 0) == 1
    packed = _pack_weight(node.inputs[1], flipped)
    if packed is None or x is None or x.dtype != ir.DataType.FLOAT:
        return False
    if (sum_with_bias := _with_bias(node, packed.columns)) is None:
        return False
    last, bias = sum_with_bias
    zero_points = None if packed.zero_points is None else _constant(editor, packed.zero_points, "zero_points")
    parts = [_constant(editor, packed.integers, "weight"), _constant(editor, packed.scales, "scales"), zero_points]
    attributes = {"K": packed.rows, "N": packed.columns, "bits": packed.bits, "block_size": packed.block}
    product = editor.insert(
        last,
        "MatMulNBits",
        [x, *parts, None, bias],
        attributes | {"accuracy_level": _INTEGERS_OF_8_BITS},
        like=last.outputs[0],
        dtype=ir.DataType.FLOAT,
        domain="com.microsoft",
    )
    editor.replace(last.outputs[0], product)
    return True


def _with_bias(node: ir.Node, columns: int) -> tuple[ir.Node, ir.Value | None] | None:
    """Return the node that returns the sum with the bias, and the bias.

    Returns None for a Gemm with another summand than a bias.
    """
    if node.op_type == "Gemm":
        summand = node.inputs[2] if len(node.inputs) > 2 else None
        fits = summand is None or (summand.shape is not None and tuple(summand.shape) == (columns,))
        return (node, summand) if fits else None
    total = sole_user(node.outputs[0])
    if total is None or total.op_type != "Add" or total.domain:
        return node, None
    index = 1 if total.inputs[0] is node.outputs[0] else 0
    bias = constant_of(total, index)
    fits = bias is not None and tuple(bias.shape) == (columns,)
    return (total, total.inputs[index]) if fits else (node, None)


def _pack_weight(value: ir.Value | None, flipped: bool) -> _Packed | None:
    """Pack a dequantized constant; `flipped` for one whose rows are the outputs."""
    transpose = producer(value, "Transpose")
    if transpose is not None:
        value, flipped = transpose.inputs[0], not flipped
    node = producer(value, "DequantizeLinear")
    parts = [] if node is None else [_contents(each) for each in node.inputs]
    if node is None or any(part is None for part in parts):
        return None
    weight, scale = np.asarray(parts[0]), np.asarray(parts[1])
    zero = np.asarray(parts[2]) if len(parts) > 2 else np.zeros(scale.shape, np.int16)
    if weight.ndim != 2 or scale.dtype != np.float32:
        return None
    axis, block = node.attributes.get_int("axis", 1) % 2, node.attributes.get_int("block_size", 0)
    signed = node.inputs[0] is not None and node.inputs[0].dtype in (ir.DataType.INT4, ir.DataType.INT8)
    numbers, points = weight.astype(np.int16), zero.astype(np.int16)
    if flipped:
        numbers, axis = numbers.T, 1 - axis
        scale, points = (scale.T, points.T) if block else (scale, points)
    return _pack_blocks(numbers, scale, points, axis if scale.size > 1 else None, block, signed)


def _pack_blocks(
    weight: npt.NDArray[np.int16], scale: _Array, zero: npt.NDArray[np.int16], axis: int | None, block: int, signed: bool
) -> _Packed | None:
    """Pack a [K, N] weight; the scales' axis is 0 with a block, 1 or None without."""
    rows, columns = weight.shape
    if (block == 0) == (axis == 0) or (block and (block < 16 or block & (block - 1))):
        return None
    if not block:
        block = _BLOCK
        of_blocks = (-(-rows // block), columns)
        scale, zero = np.broadcast_to(scale.reshape(1, -1), of_blocks), np.broadcast_to(zero.reshape(1, -1), of_blocks)
    lowest, highest = int(min(weight.min(), zero.min())), int(max(weight.max(), zero.max()))
    fits_4_bits = lowest >= -8 and highest <= 7 if signed else highest <= 15
    bits = 4 if fits_4_bits else 8
    offset = 1 << (bits - 1) if signed else 0
    count = scale.shape[0]
    padded = np.zeros((count * block, columns), np.uint8)
    padded[:rows] = (weight + offset).astype(np.uint8)
    integers = _pack_bytes(padded.T.reshape(columns, count, block), bits)
    points = (zero + offset).astype(np.uint8).T
    all_in_middle = bool((points == 1 << (bits - 1)).all())
    packed_points = None if all_in_middle else _pack_bytes(_pad_to_even(points) if bits == 4 else points, bits).reshape(-1)
    return _Packed(bits, block, rows, columns, integers, np.ascontiguousarray(scale.T).reshape(-1), packed_points)


def _pad_to_even(points: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Pad zero points to an even number of blocks, for two in a byte."""
    return np.pad(points, ((0, 0), (0, points.shape[1] % 2)))


def _pack_bytes(numbers: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Pack two numbers of 4 bits into a byte, the first into its lower half.

    Numbers of 8 bits stay as they are.
    """
    if bits == 8:
        return np.ascontiguousarray(numbers)
    return np.ascontiguousarray(numbers[..., ::2] | (numbers[..., 1::2] << 4))


def _contents(value: ir.Value | None) -> _Array | None:
    """Return the contents of a constant of integers or floats, else None."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy() if value.dtype in (*_STORED, ir.DataType.FLOAT) else None


def _constant(editor: GraphEditor, contents: _Array, name: str) -> ir.Value:
    """Create an initializer from an array."""
    tensor = torch.from_numpy(contents)
    return editor.constant(tensor, tensor.dtype, name)
