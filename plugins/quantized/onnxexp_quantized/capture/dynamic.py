"""Layers that quantize their input at run time."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.convolution_and_linear import convolve
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import PackedWeight
from onnxexp_quantized.capture.run_time_operators import dynamic_quantize, integer_linear, widen

table = FunctionTable()


def linear(X: torch.Tensor, W_prepack: PackedWeight, reduce_range: bool = False) -> torch.Tensor:
    """quantized::linear_dynamic(Tensor X, LinearPackedParamsBase W_prepack, bool reduce_range=False) -> Tensor Y"""
    quantized = dynamic_quantize(X, torch.quint8, reduce_range and W_prepack.reduces_range)
    return integer_linear(quantized, W_prepack.weight, W_prepack.bias)


def linear_fp16(X: torch.Tensor, W_prepack: PackedWeight) -> torch.Tensor:
    """quantized::linear_dynamic_fp16(Tensor X, LinearPackedParamsBase W_prepack) -> Tensor Y"""
    return functional.linear(X, widen(W_prepack.half), W_prepack.bias)


table("quantized::linear_dynamic")(linear)
table("quantized::linear_relu_dynamic")(lambda *args, **kwargs: torch.relu(linear(*args, **kwargs)))
table("quantized::linear_dynamic_fp16")(linear_fp16)
table("quantized::linear_relu_dynamic_fp16")(lambda *args: torch.relu(linear_fp16(*args)))


def _convolution(axes: int, qx: torch.Tensor, packed_weight: PackedWeight, reduce_range: bool = False) -> torch.Tensor:
    """quantized::conv2d_dynamic(Tensor qx, Conv2dPackedParamsBase packed_weight, bool reduce_range=False) -> Tensor

    torch quantizes the result with the parameters of the input. Those of 7 bits leave room for twice the range, which those of
    8 bits would cut off.
    """
    reduced = reduce_range and packed_weight.reduces_range
    quantized = dynamic_quantize(qx, torch.quint8, reduced, exact=reduced)
    return quantized.like(convolve(quantized.dequantize(), packed_weight, axes)).dequantize()


for _axes in (1, 2, 3):
    table(f"quantized::conv{_axes}d_dynamic")(functools.partial(_convolution, _axes))
    table(f"quantized::conv_transpose{_axes}d_dynamic")(functools.partial(_convolution, _axes))


def quantize_per_tensor_dynamic(input: torch.Tensor, dtype: torch.dtype, reduce_range: bool) -> Any:
    """Replace `torch.quantize_per_tensor_dynamic`; for float16 it is a cast."""
    if dtype == torch.float16:
        return input.half()
    return dynamic_quantize(input, dtype, reduce_range and torch.backends.quantized.engine != "qnnpack")
