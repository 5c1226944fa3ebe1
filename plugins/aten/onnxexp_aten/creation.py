"""New tensors: of one number, of a range, of a pattern."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, dtype_of
from onnxexp_aten.layout import filled, vector

__all__ = ["arange_of", "full_of"]


def full_of(op: Builder, sizes: Any, value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor of one number, be it known at export or not; `sizes` as for `filled`."""
    if op.is_static(value):
        return filled(op, sizes, op.static(value), dtype)
    return op.Expand(op.cast(value, dtype), sizes if isinstance(sizes, Tensor) else vector(op, sizes))


def _like(op: Builder, x: Tensor) -> Any:
    """The sizes of a tensor, as a list where they are static, else as a tensor."""
    if x.shape is not None and all(isinstance(size, int) for size in x.shape):
        return list(x.shape)
    return op.Shape(x)


def _default(dtype: torch.dtype | None) -> torch.dtype:
    return dtype_of(dtype, torch.get_default_dtype())


def _out_dtype(op: Builder) -> torch.dtype:
    """The dtype that the captured program knows of the result."""
    return op.node.outputs[0].type.dtype


@aten("zeros", "empty.memory_format", "empty_strided", "empty_permuted")
def zeros(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(op, size, 0, _out_dtype(op))


@aten("ones")
def ones(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(op, size, 1, _out_dtype(op))


@aten("full")
def full(op: Builder, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return full_of(op, size, fill_value, _out_dtype(op))


@aten("zeros_like", "empty_like")
def zeros_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return filled(op, _like(op, self), 0, _out_dtype(op))


@aten("ones_like")
def ones_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return filled(op, _like(op, self), 1, _out_dtype(op))


@aten("full_like")
def full_like(op: Builder, self: Tensor, fill_value: Any, *options: Any) -> Tensor:
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return full_of(op, _like(op, self), fill_value, _out_dtype(op))


@aten("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(op, size, 0, _out_dtype(op))


@aten("new_ones")
def new_ones(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(op, size, 1, _out_dtype(op))


@aten("new_full")
def new_full(op: Builder, self: Tensor, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return full_of(op, size, fill_value, _out_dtype(op))


@aten("scalar_tensor")
def scalar_tensor(op: Builder, s: Any, *options: Any) -> Tensor:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return op.cast(s, _out_dtype(op))


# Ranges

_RANGE_DTYPES = (torch.int64, torch.int32, torch.int16, torch.float32, torch.float64)


def arange_of(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """start, start + step, … below end."""
    if op.is_static([start, end, step]):
        start, end, step = (op.static(bound) for bound in (start, end, step))
        return op.constant(torch.arange(start, end, step, dtype=dtype))
    if op.opset < 11:
        return _counted(op, start, end, step, dtype)
    compute = dtype if dtype in _RANGE_DTYPES else torch.float32 if dtype.is_floating_point else torch.int64
    bounds = [op.cast(bound, compute) for bound in (start, end, step)]
    return op.cast(op.Range(*bounds), dtype)


def _counted(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """A range from the places in as many ones, for opsets without Range."""
    unit = not isinstance(step, Tensor) and step == 1
    zero = not isinstance(start, Tensor) and start == 0
    length = op.cast(end if zero else op.Sub(*_together(op, end, start)), torch.float64)
    if not unit:
        length = op.Div(length, op.cast(step, torch.float64))
    if not (unit and _integral(start) and _integral(end)):
        length = op.cast(op.Ceil(op.cast(length, torch.float32)), torch.int64)
    places = op.NonZero(filled(op, [op.cast(length, torch.int64)], 1, torch.float32))
    result = op.cast(op.Squeeze(places, axes=[0]), dtype)
    result = result if unit else op.Mul(result, op.cast(step, dtype))
    return result if zero else op.Add(result, op.cast(start, dtype))


def _integral(number: Any) -> bool:
    return (isinstance(number, Tensor) and not number.dtype.is_floating_point) or isinstance(number, int)


def _together(op: Builder, *numbers: Any) -> list[Tensor]:
    dtype = torch.int64 if all(map(_integral, numbers)) else torch.float64
    return [op.cast(number, dtype) for number in numbers]


@aten("arange")
def arange(op: Builder, end: Any, *options: Any) -> Tensor:
    """arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(op, 0, end, 1, _out_dtype(op))


@aten("arange.start")
def arange_start(op: Builder, start: Any, end: Any, *options: Any) -> Tensor:
    """arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(op, start, end, 1, _out_dtype(op))


@aten("arange.start_step")
def arange_start_step(op: Builder, start: Any, end: Any, step: Any, *options: Any) -> Tensor:
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(op, start, end, step, _out_dtype(op))
