"""Convolutions and linear layers with packed weights, static."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight, QuantizedTensor

__all__ = ["convolve", "table"]

table = FunctionTable()

_CONVOLUTIONS: dict[bool, list[Callable[..., torch.Tensor]]] = {
    False: [torch.conv1d, torch.conv2d, torch.conv3d],
    True: [torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d],
}


def convolve(x: torch.Tensor, packed: PackedWeight, axes: int) -> torch.Tensor:
    """Convolve a float tensor with a dequantized weight."""
    settings = dict(packed.settings)
    function = _CONVOLUTIONS[settings.pop("transpose")][axes - 1]
    return function(x, packed.weight.dequantize(), packed.bias, **settings)


def _convolution(axes: int, relu: bool, x: QuantizedTensor, packed: PackedWeight, *rest: Any, **named: Any) -> QuantizedTensor:
    """quantized::conv2d(Tensor qx, Conv2dPackedParamsBase packed, float output_scale, int output_zero_point)

    An older overload repeats the settings of the convolution before the scale.
    """
    scale, zero_point = [*rest, *named.values()][-2:]
    result = convolve(x.dequantize(), packed, axes)
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, scale, zero_point, x.dtype)


for _axes in (1, 2, 3):
    table(f"quantized::conv{_axes}d")(functools.partial(_convolution, _axes, False))
    table(f"quantized::conv{_axes}d_relu")(functools.partial(_convolution, _axes, True))
    table(f"quantized::conv_transpose{_axes}d")(functools.partial(_convolution, _axes, False))


def _linear(
    activation: Callable[[torch.Tensor], torch.Tensor] | None,
    X: QuantizedTensor,
    W_prepack: PackedWeight,
    Y_scale_i: float,
    Y_zero_point_i: int,
) -> QuantizedTensor:
    """quantized::linear(Tensor X, LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"""
    result = functional.linear(X.dequantize(), W_prepack.weight.dequantize(), W_prepack.bias)
    return QuantizedTensor.quantize(activation(result) if activation else result, Y_scale_i, Y_zero_point_i, X.dtype)


table("quantized::linear")(functools.partial(_linear, None))
table("quantized::linear_relu")(functools.partial(_linear, torch.relu))
table("quantized::linear_tanh")(functools.partial(_linear, torch.tanh))
