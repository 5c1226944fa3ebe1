"""quantized_decomposed: quantize and dequantize."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_quantized.lowering.affine import Affine, as_scalar, check_width, dequantize, quantize

table = SymbolicTable("quantized_decomposed")


@table("quantize_per_tensor")
def quantize_per_tensor(
    op: Builder, input: Tensor, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> Tensor:
    """quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    lowest, highest = (int(_number(op, limit)) for limit in (quant_min, quant_max))
    return quantize(op, input, _per_tensor(op, scale, zero_point), lowest, highest, dtype)


@table("dequantize_per_tensor")
def dequantize_per_tensor(
    op: Builder,
    input: Tensor,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
) -> Tensor:
    """dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *,
    ScalarType? out_dtype=None) -> Tensor"""
    return dequantize(op, input, _per_tensor(op, scale, zero_point), out_dtype)


@table("quantize_per_channel")
def quantize_per_channel(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType
    dtype) -> Tensor"""
    return quantize(op, input, _per_channel(op, input, scales, zero_points, axis), quant_min, quant_max, dtype)


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
    out_dtype: torch.dtype | None,
) -> Tensor:
    """dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType
    dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    check_width(op, input, quant_min, quant_max)
    return dequantize(op, input, _per_channel(op, input, scales, zero_points, axis), out_dtype)


@table("fake_quant_per_channel")
def fake_quant_per_channel(
    op: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max)
    -> Tensor"""
    affine = _per_channel(op, input, scales, zero_points, axis)
    dtypes = (torch.int8, torch.uint8, torch.int16, torch.int32)
    dtype = next(each for each in dtypes if torch.iinfo(each).min <= quant_min and quant_max <= torch.iinfo(each).max)
    return dequantize(op, quantize(op, input, affine, quant_min, quant_max, dtype), affine)


@table("quantize_per_token")
def quantize_per_token(
    op: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    """quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype)
    -> Tensor"""
    affine = Affine(op.cast(scales, torch.float32), zero_points)
    return quantize(op, input, affine, quant_min, quant_max, dtype, zero_point_first=True)


@table("dequantize_per_token")
def dequantize_per_token(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    """dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype,
    ScalarType output_dtype) -> Tensor"""
    return dequantize(op, input, Affine(op.cast(scales, torch.float32), zero_points), output_dtype)


@table("quantize_per_channel_group")
def quantize_per_channel_group(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
) -> Tensor:
    """quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype,
    int group_size) -> Tensor"""
    affine = _groups(op, input, scales, zero_points, group_size)
    return quantize(op, input, affine, quant_min, quant_max, dtype, zero_point_first=True)


@table("dequantize_per_channel_group")
def dequantize_per_channel_group(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Tensor:
    """dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType
    dtype, int group_size, ScalarType output_dtype) -> Tensor"""
    check_width(op, input, quant_min, quant_max)
    return dequantize(op, input, _groups(op, input, scales, zero_points, group_size), output_dtype)


@table("convert_element_type.no_fuse")
def convert_element_type(op: Builder, input: Tensor, dtype: torch.dtype) -> Tensor:
    """convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor"""
    (converted,) = op.torch_op("aten::to.dtype", input, dtype)
    assert isinstance(converted, Tensor)
    return converted


def _number(op: Builder, limit: Any) -> float:
    number = op.static(limit, "a limit of the range")
    return float(number[0] if isinstance(number, list) else number)


def _per_tensor(op: Builder, scale: Any, zero_point: Any) -> Affine:
    return Affine(as_scalar(op, scale, torch.float32), as_scalar(op, zero_point))


def _per_channel(op: Builder, x: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int) -> Affine:
    if x.rank is None:
        op.decline("the rank must be known at export")
    return Affine(op.cast(scales, torch.float32), zero_points, axis % x.rank)


def _groups(op: Builder, x: Tensor, scales: Tensor, zero_points: Tensor | None, size: int) -> Affine:
    """Return the scales of groups in the rows of a matrix.

    A row shorter than `size` is one group.
    """
    columns = x.shape[1] if x.shape is not None else None
    if not isinstance(columns, int):
        op.decline("the number of columns must be known at export")
    groups = max(columns // size, 1)
    shaped = [None if each is None else op.Reshape(each, [-1, groups]) for each in (op.cast(scales, torch.float32), zero_points)]
    assert shaped[0] is not None
    return Affine(shaped[0], shaped[1], 1, columns // groups)
