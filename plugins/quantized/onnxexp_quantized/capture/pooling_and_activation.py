"""Pooling, activations and resampling of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.layout import first_of, on_integers
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

__all__ = ["rounded_again", "table"]

table = FunctionTable()


def rounded_again(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> QuantizedTensor:
    """Compute in float32, and quantize the result with the parameters of the argument."""
    given, named = pytree.tree_map_only(QuantizedTensor, QuantizedTensor.dequantize, (tuple(args), dict(kwargs)))
    return first_of((args, kwargs)).like(func(*given, **named))


table.generic("max_pool2d quantized::max_pool2d max_pool3d topk sort max min dropout", on_integers)
table.generic(
    """
    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d mean interpolate upsample
    leaky_relu leaky_relu_ prelu relu6 hardtanh hardtanh_ threshold threshold_
    """,
    rounded_again,
)


@table("relu", "relu_")
def _relu(input: QuantizedTensor, inplace: bool = False) -> QuantizedTensor:
    """relu(Tensor self) -> Tensor"""
    return input.with_integers(torch.clamp(input.integers, min=input.zero_point))


def _fixed(function: Callable[..., torch.Tensor], scale: float, zero_point: int) -> Callable[..., QuantizedTensor]:
    """An activation whose results have fixed parameters."""
    return lambda input, inplace=False: QuantizedTensor.quantize(function(input.dequantize()), scale, zero_point, input.dtype)


table("sigmoid", "sigmoid_")(_fixed(torch.sigmoid, 1 / 256, 0))
table("hardsigmoid", "hardsigmoid_")(_fixed(torch.nn.functional.hardsigmoid, 1 / 256, 0))
table("tanh", "tanh_")(_fixed(torch.tanh, 2 / 256, 128))


@table("quantized::hardswish")
def _hardswish(input: QuantizedTensor, output_scale: float, output_zero_point: int) -> QuantizedTensor:
    """quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor"""
    result = torch.nn.functional.hardswish(input.dequantize())
    return QuantizedTensor.quantize(result, output_scale, output_zero_point, input.dtype)
