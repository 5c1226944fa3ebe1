"""Convolutions and linear layers with packed weights, static."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight, QuantizedTensor

table = FunctionTable()

_CONVOLUTIONS: dict[bool, list[Callable[..., torch.Tensor]]] = {
    False: [torch.conv1d, torch.conv2d, torch.conv3d],
    True: [torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d],
}
_PER_AXIS = ("stride", "padding", "dilation", "output_padding")
"""The settings with a number for each axis."""


def convolve(x: torch.Tensor, packed: PackedWeight, axes: int) -> torch.Tensor:
    """Convolve a float tensor with a dequantized weight.

    torch packs the weight of a 1-D convolution as a 2-D weight with a height of 1.
    """
    settings, weight = dict(packed.settings), packed.weight
    if weight.ndim > axes + 2:
        weight = weight.with_integers(weight.integers.squeeze(2))
        settings |= {name: settings[name][-axes:] for name in _PER_AXIS if name in settings}
    function = _CONVOLUTIONS[settings.pop("transpose")][axes - 1]
    return function(x, weight.dequantize(), packed.bias, **settings)


def _convolution(axes: int, relu: bool, x: QuantizedTensor, packed: PackedWeight, *rest: Any, **named: Any) -> QuantizedTensor:
    """quantized::conv2d(Tensor qx, Conv2dPackedParamsBase packed, float output_scale, int output_zero_point) -> Tensor

    An older overload repeats the settings of the convolution before the scale; torch uses those of the packed weight.
    """
    scale, zero_point = [*rest, *named.values()][-2:]
    result = convolve(x.dequantize(), packed, axes)
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, scale, zero_point, x.dtype)


for _axes in (1, 2, 3):
    table(f"quantized::conv{_axes}d")(functools.partial(_convolution, _axes, False))
    table(f"quantized::conv{_axes}d_relu")(functools.partial(_convolution, _axes, True))
    table(f"quantized::conv_transpose{_axes}d")(functools.partial(_convolution, _axes, False))


def _convolution_with_sum(
    relu: bool,
    qx: QuantizedTensor,
    qaccum: QuantizedTensor,
    packed_weight: PackedWeight,
    output_scale: float,
    output_zero_point: int,
) -> QuantizedTensor:
    """quantized::conv2d_add(Tensor qx, Tensor qaccum, Conv2dPackedParamsBase packed_weight, float output_scale, int
    output_zero_point) -> Tensor"""
    result = convolve(qx.dequantize(), packed_weight, 2) + qaccum.dequantize()
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, output_scale, output_zero_point, qx.dtype)


table("quantized::conv2d_add")(functools.partial(_convolution_with_sum, False))
table("quantized::conv2d_add_relu")(functools.partial(_convolution_with_sum, True))


def _linear(
    activation: Callable[..., torch.Tensor] | None,
    X: QuantizedTensor,
    W_prepack: PackedWeight,
    Y_scale_i: float,
    Y_zero_point_i: int,
    *settings: Any,
) -> QuantizedTensor:
    """quantized::linear(Tensor X, LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"""
    result = functional.linear(X.dequantize(), W_prepack.weight.dequantize(), W_prepack.bias)
    return QuantizedTensor.quantize(activation(result, *settings) if activation else result, Y_scale_i, Y_zero_point_i, X.dtype)


table("quantized::linear")(functools.partial(_linear, None))
table("quantized::linear_relu")(functools.partial(_linear, torch.relu))
table("quantized::linear_tanh")(functools.partial(_linear, torch.tanh))
table("quantized::linear_leaky_relu")(functools.partial(_linear, functional.leaky_relu))


def _linear_in_float(relu: bool, X: torch.Tensor, X_scale: float, X_zero_point: int, W_prepack: PackedWeight) -> torch.Tensor:
    """quantized::linear_with_input_q_dq_qweight_dq_output_fp32(Tensor X, float X_scale, int X_zero_point, LinearPackedParamsBase
    W_prepack) -> Tensor Y"""
    rounded = QuantizedTensor.quantize(X, X_scale, X_zero_point, torch.quint8).dequantize()
    result = functional.linear(rounded, W_prepack.weight.dequantize(), W_prepack.bias)
    return torch.relu(result) if relu else result


table("quantized::linear_with_input_q_dq_qweight_dq_output_fp32")(functools.partial(_linear_in_float, False))
table("quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32")(functools.partial(_linear_in_float, True))
