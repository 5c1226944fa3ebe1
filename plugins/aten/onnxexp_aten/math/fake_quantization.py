"""Fake quantization: QuantizeLinear and DequantizeLinear, or their arithmetic."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.unary import round_
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.kernel_dtypes import compute

__all__ = ["table"]

table = SymbolicTable("aten")

_QUANTIZED = {(0, 255): torch.uint8, (-128, 127): torch.int8}
_QUANTIZE_LINEAR = 10
_QUANTIZE_LINEAR_WITH_AXIS = 13


@table("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize(op: Builder, self: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor"""
    factor, zero = _scalar(op, scale, torch.float32), _scalar(op, zero_point, torch.int32)
    quantized = _QUANTIZED.get((quant_min, quant_max))
    if quantized is not None and op.opset >= _QUANTIZE_LINEAR and _fits(self, zero, quant_min, quant_max):
        return _quantize_and_back(op, self, factor, op.cast(zero, quantized))
    return _arithmetic(op, self, factor, zero, quant_min, quant_max)


@table("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max)
    -> Tensor"""
    place = axis_of(op, self, axis)
    quantized = _QUANTIZED.get((quant_min, quant_max))
    if quantized is not None and op.opset >= _QUANTIZE_LINEAR_WITH_AXIS and _fits(self, zero_point, quant_min, quant_max):
        return _quantize_and_back(op, self, scale, op.cast(zero_point, quantized), axis=place)
    shape = [1] * place + [-1] + [1] * (rank_of(op, self) - place - 1)
    return _arithmetic(op, self, op.Reshape(scale, shape), op.Reshape(zero_point, shape), quant_min, quant_max)


def _scalar(op: Builder, number: Any, dtype: torch.dtype) -> Tensor:
    """Return a number, or a tensor of one element, as a 0-d tensor."""
    if not isinstance(number, Tensor):
        return op.constant(number, dtype)
    return op.cast(number if number.rank == 0 else op.Reshape(number, op.constant([], torch.int64)), dtype)


def _fits(x: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> bool:
    """Whether QuantizeLinear takes the tensor and every zero point.

    A zero point is a whole number in the range of the quantized type.
    """
    zero = zero_point.const
    if x.dtype != torch.float32 or zero is None or zero.dtype.is_floating_point:
        return False
    return bool(((zero >= quant_min) & (zero <= quant_max)).all())


def _quantize_and_back(op: Builder, x: Tensor, scale: Tensor, zero_point: Tensor, **axis: int) -> Tensor:
    quantized = op.QuantizeLinear(x, scale, zero_point, **axis)
    return op.DequantizeLinear(quantized, scale, zero_point, **axis)


def _arithmetic(op: Builder, x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Compute as eager does: in float32 at least, with the reciprocal of the scale.

    A whole zero point is added after the rounding, another one before it.
    """
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    inverse = op.cast(op.Reciprocal(op.cast(scale, torch.float32)), dtype)
    zero, scaled = op.cast(zero_point, dtype), op.Mul(op.cast(x, dtype), inverse)
    if zero_point.dtype.is_floating_point:
        steps = round_(op, op.Add(scaled, zero))
    else:
        steps = op.Add(round_(op, scaled), zero)
    steps = compute(op, "Min", compute(op, "Max", steps, float(quant_min)), float(quant_max))
    return op.cast(op.Mul(op.Sub(steps, zero), op.cast(scale, dtype)), x.dtype)
