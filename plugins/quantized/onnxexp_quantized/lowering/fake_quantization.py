"""Fake quantization: QuantizeLinear and DequantizeLinear, or their arithmetic.

A constant is quantized at export: the file has the integers of a weight, and DequantizeLinear.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_quantized.capture.fake_quantize_modules import fused_parameters
from onnxexp_quantized.lowering.affine import Affine, as_scalar, dequantize, quantize

table = SymbolicTable("aten")

_DTYPES = {torch.uint8: 10, torch.int8: 10, torch.uint16: 21, torch.int16: 21}
"""The dtypes of QuantizeLinear, narrow ones first, with the opset of each."""
_OBSERVING = (
    "the model still observes: each call would change the scale; "
    "to fix this, call model.apply(torch.ao.quantization.disable_observer) before the export"
)


@table("fake_quantize_per_tensor_affine")
def fake_quantize(op: Builder, self: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor

    The parameters may be tensors of one element.
    """
    factor = as_scalar(op, scale, torch.float32)
    zero = as_scalar(op, zero_point, None if isinstance(zero_point, Tensor) else torch.int32)
    return _quantize_and_back(op, self, Affine(factor, zero), quant_min, quant_max)


@table("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max)
    -> Tensor"""
    if self.rank is None:
        op.decline("the rank must be known at export")
    return _quantize_and_back(op, self, Affine(op.cast(scale, torch.float32), zero_point, axis % self.rank), quant_min, quant_max)


@table("onnxexp_quantized::fake_quantize")
def fake_quantize_along(
    op: Builder, x: Tensor, scale: Tensor, zero_point: Tensor, axis: int | None, quant_min: int, quant_max: int
) -> Tensor:
    """onnxexp_quantized::fake_quantize(Tensor x, Tensor scale, Tensor zero_point, int? axis, int quant_min, int quant_max)
    -> Tensor

    The capture records this operator in place of ATen's two. Their symbolics lower it, also those of another plugin.
    """
    if axis is None:
        return op.torch_op("aten::fake_quantize_per_tensor_affine", x, scale, zero_point, quant_min, quant_max)[0]
    return op.torch_op("aten::fake_quantize_per_channel_affine", x, scale, zero_point, axis, quant_min, quant_max)[0]


def fake_quantize_with_mask(
    op: Builder, self: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) ->
    (Tensor output, Tensor mask)"""
    affine = Affine(as_scalar(op, scale, torch.float32), as_scalar(op, zero_point))
    return _quantize_and_back(op, self, affine, quant_min, quant_max), _inside(op, self, affine, quant_min, quant_max)


table("fake_quantize_per_tensor_affine_cachemask")(fake_quantize_with_mask)


def fake_quantize_per_channel_with_mask(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int
    quant_max) -> (Tensor output, Tensor mask)"""
    result = fake_quantize_per_channel(op, self, scale, zero_point, axis, quant_min, quant_max)
    assert self.rank is not None
    affine = Affine(op.cast(scale, torch.float32), zero_point, axis % self.rank)
    return result, _inside(op, self, affine, quant_min, quant_max)


table("fake_quantize_per_channel_affine_cachemask")(fake_quantize_per_channel_with_mask)


def fake_quantize_if_enabled(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor
    fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""
    if not _switch(op, fake_quant_enabled, "fake_quant_enabled"):
        return self, op.Equal(self, self)
    return fake_quantize_with_mask(op, self, scale, zero_point, quant_min, quant_max)


table("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")(fake_quantize_if_enabled)


@table("_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learnable(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float
) -> Tensor:
    """_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max,
    float grad_factor=1.) -> Tensor"""
    return fake_quantize(op, self, scale, _whole(op, zero_point, quant_min, quant_max), quant_min, quant_max)


@table("_fake_quantize_learnable_per_channel_affine")
def fake_quantize_learnable_per_channel(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int, grad_factor: float
) -> Tensor:
    """_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int
    quant_max, float grad_factor=1.) -> Tensor"""
    zeros = _whole(op, zero_point, quant_min, quant_max)
    return fake_quantize_per_channel(op, self, scale, zeros, axis, quant_min, quant_max)


@table("_fused_moving_avg_obs_fq_helper_functional")
def fused_moving_average(
    op: Builder,
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    *range_: Any,
) -> tuple[Tensor, ...]:
    """_fused_moving_avg_obs_fq_helper_functional(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor running_min,
    Tensor running_max, Tensor scale, Tensor zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis,
    bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask, Tensor running_min_out,
    Tensor running_max_out, Tensor scale_out, Tensor zero_point_out)"""
    quant_min, quant_max, axis, per_row, symmetric = range_
    if _switch(op, observer_on, "observer_on"):
        raise op.error(_OBSERVING)
    if not _switch(op, fake_quant_on, "fake_quant_on"):
        return self, op.Equal(self, self), running_min, running_max, scale, zero_point
    limits = [each.const for each in (running_min, running_max)]
    if limits[0] is None or limits[1] is None:
        raise op.error("running_min and running_max must be known at export")
    parameters = fused_parameters(limits[0], limits[1], quant_min, quant_max, axis, per_row, symmetric)
    new_scale, new_zero = (op.constant(each) for each in parameters)
    if per_row:
        results = fake_quantize_per_channel_with_mask(op, self, new_scale, new_zero, axis, quant_min, quant_max)
    else:
        results = fake_quantize_with_mask(op, self, new_scale, new_zero, quant_min, quant_max)
    return *results, running_min, running_max, new_scale, new_zero


def _switch(op: Builder, switch: Tensor, what: str) -> bool:
    """Return the value of a switch, a tensor of one element."""
    if switch.const is None:
        raise op.error(f"{what} must be known at export; to fix this, store it as a buffer of the model")
    return bool(switch.const.flatten()[0] == 1)


def _whole(op: Builder, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Round learned zero points to integers in the range."""
    if zero_point.const is not None:
        return op.constant(zero_point.const.float().round().clamp(quant_min, quant_max).to(torch.int32))
    (rounded,) = op.torch_op("aten::round", op.cast(zero_point, torch.float32))
    return op.cast(op.Clip(rounded, float(quant_min), float(quant_max)), torch.int32)


def _quantize_and_back(op: Builder, x: Tensor, affine: Affine, quant_min: int, quant_max: int) -> Tensor:
    dtype = next((each for each in _DTYPES if op.opset >= _DTYPES[each] and _contains(each, quant_min, quant_max)), None)
    zero = affine.zero_point
    assert zero is not None
    if x.dtype != torch.float32 or dtype is None or zero.const is None or not _holds(dtype, zero.const):
        return _arithmetic(op, x, affine, quant_min, quant_max)
    if x.const is not None and affine.scale.const is not None:
        rounded = functools.partial(_integers, affine.axis, quant_min, quant_max, dtype)
        return dequantize(op, op.deferred(rounded, x, affine.scale, zero), affine)
    return dequantize(op, quantize(op, x, affine, quant_min, quant_max, dtype), affine)


def _holds(dtype: torch.dtype, zero_point: torch.Tensor) -> bool:
    """Return whether zero points are whole numbers of a dtype."""
    return not zero_point.dtype.is_floating_point and _contains(dtype, *zero_point.aminmax())


def _contains(dtype: torch.dtype, lowest: Any, highest: Any) -> bool:
    limits = torch.iinfo(dtype)
    return bool(limits.min <= lowest and highest <= limits.max)


def _integers(
    axis: int | None, quant_min: int, quant_max: int, dtype: torch.dtype, x: torch.Tensor, *parameters: torch.Tensor
) -> torch.Tensor:
    """Quantize a constant."""
    shape = [1] * x.dim()
    if axis is not None:
        shape[axis] = -1
    scale, zero = (each.reshape(shape) for each in parameters)
    return (torch.round(x * scale.reciprocal()) + zero).clamp(quant_min, quant_max).to(dtype)


def _arithmetic(op: Builder, x: Tensor, affine: Affine, quant_min: int, quant_max: int) -> Tensor:
    """Compute as eager does: in float32 at least, with the reciprocal of the scale."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    steps, zero, scale = _steps(op, x, affine, dtype)
    (clamped,) = op.torch_op("aten::clamp", steps, float(quant_min), float(quant_max))
    return op.cast(op.Mul(op.Sub(clamped, zero), op.cast(scale, dtype)), x.dtype)


def _inside(op: Builder, x: Tensor, affine: Affine, quant_min: int, quant_max: int) -> Tensor:
    """Compute whether each element is in the range, and is not clamped."""
    steps, _, _ = _steps(op, x, affine, torch.float32)
    return op.And(op.Not(op.Less(steps, float(quant_min))), op.Not(op.Greater(steps, float(quant_max))))


def _steps(op: Builder, x: Tensor, affine: Affine, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the steps before clamping, and zero points and scales that broadcast.

    An integer zero point is added after the rounding, a float one before it.
    """
    scale, zero_point = affine.scale, affine.zero_point
    assert zero_point is not None
    if affine.axis is not None:
        shape = [1] * affine.axis + [-1] + [1] * ((x.rank or 0) - affine.axis - 1)
        scale, zero_point = op.Reshape(scale, shape), op.Reshape(zero_point, shape)
    zero, scaled = op.cast(zero_point, dtype), op.Mul(op.cast(x, dtype), op.cast(op.Div(1.0, scale), dtype))
    if zero_point.dtype.is_floating_point:
        (steps,) = op.torch_op("aten::round", op.Add(scaled, zero))
        return steps, zero, scale
    (rounded,) = op.torch_op("aten::round", scaled)
    return op.Add(rounded, zero), zero, scale
