"""torchao: quantization by blocks, and parameters computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_quantized.lowering.affine import (
    FLOAT8,
    Affine,
    as_scalar,
    check_float8,
    check_width,
    dequantize,
    kept_cast,
    quantize,
)
from onnxexp_quantized.lowering.choose_parameters import scale_and_zero_point

table = SymbolicTable("torchao")


@table("quantize_affine")
def quantize_affine(
    op: Builder,
    input: Tensor,
    block_size: Sequence[Any],
    scale: Tensor,
    zero_point: Tensor | None,
    output_dtype: torch.dtype,
    quant_min: Any,
    quant_max: Any,
) -> Tensor:
    """quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar?
    quant_min=None, Scalar? quant_max=None) -> Tensor"""
    if output_dtype in FLOAT8:
        op.decline("float8 is not rounded to integers")
    lowest, highest = _limits(quant_min, quant_max, output_dtype)
    affine = _by_blocks(op, input, block_size, scale, zero_point)
    return quantize(op, input, affine, lowest, highest, output_dtype)


@table("dequantize_affine")
def dequantize_affine(
    op: Builder,
    input: Tensor,
    block_size: Sequence[Any],
    scale: Tensor,
    zero_point: Tensor | None,
    input_dtype: torch.dtype,
    quant_min: Any,
    quant_max: Any,
    output_dtype: torch.dtype,
) -> Tensor:
    """dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar?
    quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor"""
    if input_dtype not in FLOAT8:
        check_width(op, input, *_limits(quant_min, quant_max, input_dtype))
    return dequantize(op, input, _by_blocks(op, input, block_size, scale, zero_point), _dtype(output_dtype))


@table("choose_qparams_affine")
def choose_qparams_affine(
    op: Builder,
    input: Tensor,
    mapping_type: str,
    block_size: Sequence[Any],
    target_dtype: torch.dtype,
    quant_min: Any,
    quant_max: Any,
    eps: float | None,
    scale_dtype: torch.dtype | None,
    zero_point_dtype: torch.dtype | None,
    keepdim: bool,
) -> tuple[Tensor, Tensor]:
    """choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar?
    quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None,
    bool keepdim=False) -> (Tensor, Tensor)"""
    lowest, highest = _limits(quant_min, quant_max, target_dtype)
    least = torch.finfo(input.dtype).eps if eps is None else eps
    grouped, axes, inner = _reduced_axes(op, op.cast(input, torch.float32), block_size)

    def reduce(name: str, x: Tensor) -> Tensor:
        reduced: Tensor = op.call("", name, x, axes=axes, keepdims=int(keepdim)) if axes else x
        return op.Squeeze(reduced, axes=[inner]) if keepdim and inner is not None else reduced

    if mapping_type == "ASYMMETRIC":
        low, high = op.Min(reduce("ReduceMin", grouped), 0.0), op.Max(reduce("ReduceMax", grouped), 0.0)
        scale, zero = scale_and_zero_point(op, low, high, lowest, highest, least)
    elif mapping_type == "SYMMETRIC":
        scale = op.Max(op.Div(reduce("ReduceMax", op.Abs(grouped)), (highest - lowest) / 2), least)
        zero = _constant_like(op, scale, (lowest + highest + 1) // 2)
    else:
        low, high = op.Min(reduce("ReduceMin", grouped), 0.0), op.Max(reduce("ReduceMax", grouped), 0.0)
        scale = op.Max(op.Max(op.Div(low, float(lowest)), op.Div(high, float(highest))), least)
        zero = _constant_like(op, scale, (lowest + highest + 1) // 2)
    zero_dtype = zero_point_dtype or (torch.int32 if mapping_type == "ASYMMETRIC" else torch.float32)
    return op.cast(scale, scale_dtype or input.dtype), op.cast(zero, zero_dtype)


@table("quantize_affine_float8_non_decomposed")
def quantize_affine_float8(op: Builder, tensor: Tensor, scale: Tensor, float8_dtype: torch.dtype) -> Tensor:
    """quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType float8_dtype=24) -> Tensor"""
    float8_dtype = _dtype(float8_dtype)
    check_float8(op, float8_dtype)
    limit = torch.finfo(float8_dtype).max
    scaled = op.Div(op.cast(tensor, torch.float32), _broadcasting(op, tensor, scale))
    return op.cast(op.Clip(scaled, -limit, limit), float8_dtype)


@table("dequantize_affine_float8_non_decomposed")
def dequantize_affine_float8(op: Builder, tensor: Tensor, scale: Tensor, output_dtype: torch.dtype) -> Tensor:
    """dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType output_dtype=6) -> Tensor"""
    if scale.shape is not None and all(size == 1 for size in scale.shape):
        return dequantize(op, tensor, Affine(as_scalar(op, scale, torch.float32), None), _dtype(output_dtype))
    product = op.Mul(kept_cast(op, tensor, torch.float32), _broadcasting(op, tensor, scale))
    return op.cast(product, _dtype(output_dtype))


def _constant_like(op: Builder, x: Tensor, number: int) -> Tensor:
    """Return a number in the shape of `x`."""
    zeros = op.Mul(x, 0.0)
    filled: Tensor = op.Add(zeros, float(number)) if number else zeros
    return filled


def _dtype(given: Any) -> torch.dtype:
    """Return a dtype, which a schema's default has as a code."""
    found = given if isinstance(given, torch.dtype) else TYPE_CODES["ScalarType"][given]
    assert isinstance(found, torch.dtype)
    return found


def _broadcasting(op: Builder, x: Tensor, scale: Tensor) -> Tensor:
    pairs = list(zip(reversed(scale.shape or ()), reversed(x.shape or ()), strict=False))
    if any(size not in (1, whole) for size, whole in pairs):
        op.decline("the blocks of a float8 tensor have more than one element and less than an axis")
    return op.cast(scale, torch.float32)


def _limits(quant_min: Any, quant_max: Any, dtype: torch.dtype) -> tuple[int, int]:
    limits = torch.iinfo(dtype)
    return int(limits.min if quant_min is None else quant_min), int(limits.max if quant_max is None else quant_max)


def _parts(op: Builder, x: Tensor, block_size: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the axes with a scale for each index, and those with one for each block.

    Every other axis has one scale: its block has the size of the axis, which may be symbolic.
    """
    if x.shape is None:
        op.decline("the rank must be known at export")
    single, blocked = [], []
    for axis, (size, block) in enumerate(zip(x.shape, block_size, strict=True)):
        if block == 1:
            single.append(axis)
        elif isinstance(block, int) and block != size:
            if not isinstance(size, int) or size % block:
                op.decline(f"blocks of {block} do not divide the axis {axis} of size {size}")
            blocked.append(axis)
    if len(blocked) > 1:
        op.decline("more than one axis has blocks")
    return single, blocked


def _by_blocks(op: Builder, x: Tensor, block_size: Sequence[Any], scale: Tensor, zero_point: Tensor | None) -> Affine:
    """Return the scales' layout: per tensor, by axis, by blocks, or broadcasting."""
    single, blocked = _parts(op, x, block_size)
    given = [op.cast(scale, torch.float32), None if zero_point is None or zero_point.shape == (0,) else zero_point]
    assert x.shape is not None
    if not single and not blocked:
        scalar, zero = (None if each is None else as_scalar(op, each) for each in given)
        axis, block = None, 0
    elif blocked:
        sizes = [_blocks(op, size, block) for size, block in zip(x.shape, block_size, strict=True)]
        if any(size == 1 and axis not in single for axis, size in enumerate(sizes)):
            op.decline("the blocks of an axis span another axis")
        scalar, zero = (None if each is None else op.Reshape(each, sizes) for each in given)
        axis, block = blocked[0], block_size[blocked[0]]
    elif len(single) == 1 and op.is_static(scale):
        scalar, zero = (None if each is None else op.Reshape(each, [-1]) for each in given)
        axis, block = single[0], 0
    else:
        others = [axis for axis in range(len(x.shape)) if axis not in single]
        scalar, zero = (_spread(op, each, len(x.shape), others) for each in given)
        axis, block = None, 0
    assert scalar is not None
    return Affine(scalar, zero, axis, block)


def _blocks(op: Builder, size: Any, block: Any) -> int:
    if not isinstance(size, int):
        op.decline("a tensor with blocks has a dynamic axis")
    return size // int(block)


def _spread(op: Builder, x: Tensor | None, rank: int, others: Sequence[int]) -> Tensor | None:
    """Return a tensor of the other axes, or of all, with size 1 for shared scales."""
    if x is None or x.rank == rank:
        return x
    if x.rank is None or x.rank + len(others) != rank:
        op.decline("the shape of the scales differs from that of the blocks")
    return op.Unsqueeze(x, axes=list(others)) if others else x


def _reduced_axes(op: Builder, x: Tensor, block_size: Sequence[Any]) -> tuple[Tensor, list[int], int | None]:
    """Return a tensor, its axes that share a scale, and the axis that `x` lacks."""
    single, blocked = _parts(op, x, block_size)
    assert x.shape is not None
    if not blocked:
        return x, [axis for axis in range(len(x.shape)) if axis not in single], None
    (axis,) = blocked
    block, sizes = int(block_size[axis]), [0] * axis
    after = [size if isinstance(size, int) else -1 for size in x.shape[axis + 1 :]]
    if after.count(-1) > 1:
        op.decline("more than one size after the axis of the blocks is dynamic")
    size = x.shape[axis]
    assert isinstance(size, int)
    reduced = [each + (each > axis) for each in range(len(x.shape)) if each not in single and each != axis]
    return op.Reshape(x, [*sizes, size // block, block, *after]), sorted([*reduced, axis + 1]), axis + 1
