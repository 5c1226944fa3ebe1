"""Products of integer matrices, and of float matrices with packed integer weights."""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
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
