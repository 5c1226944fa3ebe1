"""Quantization whose parameters are computed at run time, and linear layers on it."""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_quantized.capture.run_time_operators import SMALLEST_SCALE, integers_used
from onnxexp_quantized.lowering.affine import kept_cast

DYNAMIC = "quantized.dynamic"
"""Key in `ExportContext.plugin_data`: the plugin's option `dynamic`."""

table = SymbolicTable("onnxexp_quantized")

_DYNAMIC_QUANTIZE_LINEAR = 11
"""The first opset with DynamicQuantizeLinear."""


@table("dynamic_quantize")
def dynamic_quantize(op: Builder, x: Tensor, dtype: torch.dtype, reduce_range: bool, exact: bool) -> tuple[Tensor, ...]:
    """dynamic_quantize(Tensor x, ScalarType dtype, bool reduce_range, bool exact) -> (Tensor, Tensor, Tensor)"""
    may_use_operator = op.context.plugin_data[DYNAMIC] == "ort" and dtype == torch.uint8 and op.opset >= _DYNAMIC_QUANTIZE_LINEAR
    if may_use_operator and not exact:
        results: tuple[Tensor, ...] = op.DynamicQuantizeLinear(x)
        return results
    lowest, highest = integers_used(dtype, reduce_range)
    zero = op.constant(0.0, torch.float64)
    low = op.Min(op.cast(op.ReduceMin(x, keepdims=0), torch.float64), zero)
    high = op.Max(op.cast(op.ReduceMax(x, keepdims=0), torch.float64), zero)
    step = op.Div(op.Sub(high, low), float(highest - lowest))
    steps = op.Sub(float(lowest), op.Div(low, op.Max(step, torch.finfo(torch.float64).tiny)))
    one, origin = op.constant(1.0), op.constant(0, dtype)
    zero_point = op.QuantizeLinear(op.cast(steps, torch.float32), one, origin)
    scale = op.cast(op.Max(step, SMALLEST_SCALE), torch.float32)
    # torch multiplies by the reciprocal, which rounds some halves to another step than the division does.
    return op.QuantizeLinear(op.Mul(x, op.Div(1.0, scale)), one, zero_point), scale, zero_point


@table("linear")
def linear(
    op: Builder,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """linear(Tensor x, Tensor scale, Tensor zero_point, Tensor weight, Tensor weight_scale, Tensor weight_zero_point, Tensor?
    bias) -> Tensor"""
    product = op.MatMulInteger(x, op.Transpose(weight), zero_point, weight_zero_point)
    result = op.Mul(op.cast(product, torch.float32), op.Mul(scale, weight_scale))
    return result if bias is None else op.Add(result, bias)


@table("widen")
def widen(op: Builder, weight: Tensor) -> Tensor:
    """widen(Tensor weight) -> Tensor"""
    return kept_cast(op, weight, torch.float32)
