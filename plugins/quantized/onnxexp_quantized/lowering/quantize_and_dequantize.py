"""quantized_decomposed: QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor

__all__ = ["table"]

table = SymbolicTable("quantized_decomposed")


@table("quantize_per_tensor")
def quantize_per_tensor(
    op: Builder, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: torch.dtype, *_: Any
) -> Tensor:
    """quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    factor, zero = op.cast(scale, torch.float32), op.cast(zero_point, dtype)
    quantized = op.QuantizeLinear(input, factor, zero)
    return _clipped(op, quantized, quant_min, quant_max, dtype)


@table("dequantize_per_tensor")
def dequantize_per_tensor(
    op: Builder, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: torch.dtype, *_: Any
) -> Tensor:
    """dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *,
    ScalarType? out_dtype=None) -> Tensor"""
    return op.DequantizeLinear(input, op.cast(scale, torch.float32), op.cast(zero_point, dtype))


@table("dequantize_per_channel")
def dequantize_per_channel(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *_: Any,
) -> Tensor:
    """dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType
    dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    factors = op.cast(scales, torch.float32)
    zero = op.cast(op.Mul(factors, 0.0) if zero_points is None else zero_points, dtype)
    return op.DequantizeLinear(input, factors, zero, axis=axis)


def _clipped(op: Builder, x: Tensor, lowest: int, highest: int, dtype: torch.dtype) -> Tensor:
    """Clip integers to a range that is narrower than that of their dtype."""
    limits = torch.iinfo(dtype)
    if (lowest, highest) == (limits.min, limits.max):
        return x
    return op.Clip(x, op.constant(lowest, dtype), op.constant(highest, dtype))
