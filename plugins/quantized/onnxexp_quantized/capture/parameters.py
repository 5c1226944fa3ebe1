"""Quantize, dequantize, and read the parameters of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import BY_INTEGERS, DTYPES, QuantizedTensor, decomposed

table = FunctionTable()


def quantize_per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype) -> QuantizedTensor:
    """Replace `torch.quantize_per_tensor`; the result is a stand-in."""
    return QuantizedTensor.quantize(input, scale, zero_point, dtype)


def quantize_per_channel(
    input: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, dtype: torch.dtype
) -> QuantizedTensor:
    """Replace `torch.quantize_per_channel`; the result is a stand-in.

    Raises CaptureError for zero points that are floats, as the tables of embeddings have them.
    """
    if zero_points.is_floating_point():
        raise CaptureError(
            "torch.quantize_per_channel is called with float zero points, as for the table of an embedding; "
            "to fix this, quantize the "
            "table in the model's __init__"
        )
    of = DTYPES[dtype]
    integers = decomposed().quantize_per_channel(input, scales, zero_points, axis, of.lowest, of.highest, of.dtype)
    return QuantizedTensor(integers, scales, zero_points, dtype, axis)


def make_per_tensor(input: torch.Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    """Replace `torch._make_per_tensor_quantized_tensor`; the result is a stand-in."""
    return QuantizedTensor(input, scale, zero_point, BY_INTEGERS[input.dtype])


def make_per_channel(input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int) -> QuantizedTensor:
    """Replace `torch._make_per_channel_quantized_tensor`; the result is a stand-in."""
    return QuantizedTensor(input, scale, zero_point, BY_INTEGERS[input.dtype], axis)


@table("dequantize")
def dequantize(tensors: Any) -> Any:
    """dequantize.tensors(Tensor[] tensors) -> Tensor[]

    torch takes a float tensor too, and converts it to float32.
    """
    if isinstance(tensors, (list, tuple)):
        return tuple(map(dequantize, tensors))
    if isinstance(tensors, QuantizedTensor):
        return tensors.dequantize()
    return torch.ops.aten.dequantize.self(tensors) if tensors.is_quantized else tensors.float()


table("int_repr")(lambda x: x.integers.clone())
table("q_scale")(lambda x: x.scale)
table("q_zero_point")(lambda x: x.zero_point)
table("q_per_channel_scales")(lambda x: x.scale)
table("q_per_channel_zero_points")(lambda x: x.zero_point)
table("q_per_channel_axis")(lambda x: x.axis)
table("qscheme")(lambda x: torch.per_tensor_affine if x.axis is None else torch.per_channel_affine)
for _name in ("dim", "element_size", "is_contiguous", "nelement", "ndimension", "numel", "size", "stride"):
    table.generic(_name, lambda func, args, kwargs: func(args[0].integers, *args[1:], **kwargs))
for _name in ("is_floating_point", "is_complex"):
    table(_name)(lambda x: False)
