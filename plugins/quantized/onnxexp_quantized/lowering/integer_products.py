"""Products of integer matrices, and of float matrices with packed integer weights.

torchao computes a product of int8 matrices with uint8. It adds 128 to the left operand, since the CPU's instructions take uint8,
and subtracts 128 times the column sums of the right operand from the product. MatMulInteger has a zero point for that.
"""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Graph, Node, TensorType, Value
from onnxexp_quantized.lowering.affine import Affine, dequantize

OFFSET_PRODUCT = "onnxexp_quantized::offset_int_mm"
"""An operator of this plugin's pre pass: `_int_mm` of ``self - zero_point``, where `self` is uint8."""

table = SymbolicTable("aten")


@table("_int_mm")
def int_mm(op: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    """_int_mm(Tensor self, Tensor mat2) -> Tensor

    ONNX Runtime has fast kernels for a left operand of uint8 only: int8 takes 25 times as long.
    """
    if self.dtype == torch.uint8:
        return op.MatMulInteger(self, mat2)
    return offset_int_mm(op, op.cast(op.Add(op.cast(self, torch.int32), 128), torch.uint8), mat2, 128)


@table(OFFSET_PRODUCT)
def offset_int_mm(op: Builder, self: Tensor, mat2: Tensor, zero_point: int) -> Tensor:
    """offset_int_mm(Tensor self, Tensor mat2, int zero_point) -> Tensor"""
    product = op.MatMulInteger(self, mat2, op.constant(zero_point, torch.uint8))
    assert isinstance(product, Tensor)
    return product


@table("_weight_int8pack_mm")
def weight_int8pack_mm(op: Builder, self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"""
    weight = dequantize(op, mat2, Affine(op.cast(scales, torch.float32), None, 0), self.dtype)
    (product,) = op.torch_op("aten::linear", self, weight, None)
    assert isinstance(product, Tensor)
    return product


@table("_weight_int4pack_mm_for_cpu")
def weight_int4pack_mm(op: Builder, self: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor) -> Tensor:
    """_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor

    The packed order depends on the processor: the operator itself unpacks it, as the product with the identity, scale 1 and
    offset 0. The offsets of the groups are floats, so that they are multiplied with the sums of the groups of `self`.
    """
    packed, parameters = mat2.const, qScaleAndZeros.const
    if packed is None or parameters is None:
        op.decline("the weight must be known at export")
    groups, columns, _ = parameters.shape
    unit = torch.stack([torch.ones(groups, columns), torch.zeros(groups, columns)], dim=2)
    identity = torch.eye(groups * qGroupSize)
    codes = torch.ops.aten._weight_int4pack_mm_for_cpu(identity, packed, qGroupSize, unit).round().to(torch.int8)
    scales, offsets = parameters.to(torch.float32).unbind(2)
    affine = Affine(op.constant(scales.contiguous()), None, 0, qGroupSize)
    x = op.cast(self, torch.float32)
    product = op.MatMul(x, dequantize(op, op.wrap_constant(codes, mat2.name), affine))
    if bool(offsets.any()):
        sums = op.ReduceSum(op.Reshape(x, [-1, groups, qGroupSize]), axes=[2], keepdims=0)
        product = op.Add(product, op.MatMul(sums, op.constant(offsets.contiguous())))
    return op.cast(product, self.dtype)


_OFFSET = 128


def join_zero_points(graph: Graph) -> bool:
    """Replace the subtraction of the column sums by a zero point of the product."""
    makers = {value: node for node in graph.walk() for value in node.outputs}
    changed = False
    for node in graph.walk():
        operands = _product_and_sums(node, makers)
        if operands is not None:
            node.op, node.args, changed = OFFSET_PRODUCT, [*operands, _OFFSET], True
    return changed


def _product_and_sums(node: Node, makers: dict[Value, Node]) -> tuple[Value, Value] | None:
    """Return the operands of a product from which column sums are subtracted."""
    if node.op != "aten::sub.Tensor" or node.args[2] != 1:
        return None
    product, scaled = (makers.get(arg) if isinstance(arg, Value) else None for arg in node.args[:2])
    if product is None or product.op != "aten::_int_mm" or scaled is None or scaled.op != "aten::mul.Tensor":
        return None
    sums = makers.get(scaled.args[0]) if isinstance(scaled.args[0], Value) else None
    if scaled.args[1] != _OFFSET or sums is None or sums.op != "aten::sum.dim_IntList":
        return None
    left, right = product.args
    columns = sums.args[0] is right and sums.args[1] == [0] and sums.args[2] is True
    unsigned = isinstance(left.type, TensorType) and left.type.dtype == torch.uint8
    return (left, right) if columns and unsigned else None
