"""Quantize, dequantize, and read the parameters of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import DTYPES, QuantizedTensor

__all__ = ["quantize_per_channel", "quantize_per_tensor", "table"]

table = FunctionTable()


def quantize_per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype) -> QuantizedTensor:
    """torch.quantize_per_tensor, for a stand-in."""
    return QuantizedTensor.quantize(input, scale, zero_point, dtype)


def quantize_per_channel(
    input: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, dtype: torch.dtype
) -> QuantizedTensor:
    """torch.quantize_per_channel, for a stand-in."""
    of = DTYPES[dtype]
    integers = torch.ops.quantized_decomposed.quantize_per_channel(
        input, scales, zero_points, axis, of.lowest, of.highest, of.dtype
    )
    return QuantizedTensor(integers, scales, zero_points, dtype, axis)


@table("dequantize")
def _dequantize(x: Any) -> Any:
    return [each.dequantize() for each in x] if isinstance(x, (list, tuple)) else x.dequantize()


table("int_repr")(lambda x: x.integers)
table("q_scale")(lambda x: x.scale)
table("q_zero_point")(lambda x: x.zero_point)
table("q_per_channel_scales")(lambda x: x.scale)
table("q_per_channel_zero_points")(lambda x: x.zero_point)
table("q_per_channel_axis")(lambda x: x.axis)
table("qscheme")(lambda x: torch.per_tensor_affine if x.axis is None else torch.per_channel_affine)
table("dim")(lambda x: x.integers.dim())
table("size")(lambda x, dim=None: x.shape if dim is None else x.shape[dim])
table("numel")(lambda x: x.integers.numel())
table("is_floating_point")(lambda x: False)
table("is_complex")(lambda x: False)
