"""Ranges of evenly spaced numbers, and the mask of valid steps from one."""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compute, has_operator

table = SymbolicTable("aten")


_RANGE_DTYPES = (torch.int64, torch.int32, torch.int16, torch.float32, torch.float64)


def arange_of(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """Return the numbers start, start + step, … below end."""
    if op.is_static([start, end, step]):
        start, end, step = (op.static(bound) for bound in (start, end, step))
        return op.constant(torch.arange(start, end, step, dtype=dtype))
    if not dtype.is_floating_point and not all(map(_integral, (start, end, step))):
        if dtype != torch.int64 or not _truncates_bounds():
            return op.cast(_stepped(op, start, end, step), dtype)
        start, end, step = (_truncated(op, bound) for bound in (start, end, step))
    if not has_operator(op, "Range"):
        return _counted(op, start, end, step, dtype)
    counts_up = _at_least(op, start, 0) and _at_least(op, step, 1)
    if not dtype.is_floating_point and not counts_up:
        return op.cast(_from_zero(op, start, end, step, dtype if dtype == torch.int32 else torch.int64), dtype)
    inner = dtype if dtype in _RANGE_DTYPES else torch.float32 if dtype.is_floating_point else torch.int64
    bounds = [op.cast(bound, inner) for bound in (start, end, step)]
    return op.cast(op.Range(*bounds), dtype)


@functools.cache
def _truncates_bounds() -> bool:
    """Return whether torch truncates the bounds of an int64 range, as before 2.14."""
    return torch.arange(0, 2.5, dtype=torch.int64, device="cpu").numel() == 2


def _at_least(op: Builder, number: Any, least: int) -> bool:
    return op.is_static(number) and bool(op.static(number) >= least)


def _from_zero(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """Add the start to a range from zero.

    ONNX Runtime turns a Gather at a Range into a Slice with the bounds of the Range, where -1 would be the last element.
    """
    first, last, stride = (op.cast(bound, dtype) for bound in (start, end, step))
    return op.Add(op.Range(op.constant(0, dtype), op.Sub(last, first), stride), first)


def _stepped(op: Builder, start: Any, end: Any, step: Any) -> Tensor:
    """Compute a range of integers between fractional bounds.

    torch counts the numbers by the fractional bounds, and then truncates the start and the step.
    """
    first, last, stride = (op.cast(bound, torch.float64) for bound in (start, end, step))
    count = op.cast(compute(op, "Ceil", op.Div(op.Sub(last, first), stride)), torch.int64)
    places = arange_of(op, 0, count, 1, torch.int64)
    return op.Add(op.Mul(places, _truncated(op, step)), _truncated(op, start))


def _truncated(op: Builder, number: Any) -> Any:
    return op.cast(number, torch.int64) if isinstance(number, Tensor) else int(number)


def _counted(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """Compute a range with NonZero, for opsets without Range."""
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


@table("arange")
def arange(op: Builder, end: Any, *options: Any) -> Tensor:
    """arange(Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return arange_of(op, 0, end, 1, out_dtype(op))


@table("arange.start")
def arange_start(op: Builder, start: Any, end: Any, *options: Any) -> Tensor:
    """arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return arange_of(op, start, end, 1, out_dtype(op))


@table("arange.start_step")
def arange_start_step(op: Builder, start: Any, end: Any, step: Any, *options: Any) -> Tensor:
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor"""
    return arange_of(op, start, end, step, out_dtype(op))


@table("range", "range.step")
def range_(op: Builder, start: Any, end: Any, *options: Any) -> Tensor:
    """range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor"""
    step = options[0] if op.node.op == "aten::range.step" else 1
    start, end, step = (op.static(bound, "a bound") for bound in (start, end, step))
    return op.constant(torch.arange(start, end + step / 2, step, dtype=out_dtype(op)))


@table("linspace")
def linspace(op: Builder, start: Any, end: Any, steps: Any, *options: Any) -> Tensor:
    """linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor"""
    if not op.is_static([start, end, steps]):
        return linspace_between(op, start, end, steps, *options)
    start, end, steps = (op.static(bound) for bound in (start, end, steps))
    return op.constant(torch.linspace(start, end, steps, dtype=out_dtype(op)))


@table("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace_between(op: Builder, start: Any, end: Any, steps: Any, *options: Any) -> Tensor:
    """linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, ...) -> Tensor"""
    dtype = out_dtype(op)
    return op.cast(_between(op, start, end, steps, dtype), dtype)


@table("logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def logspace_between(op: Builder, start: Any, end: Any, steps: Any, base: float, *options: Any) -> Tensor:
    """logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, ...) -> Tensor"""
    dtype = out_dtype(op)
    return op.cast(op.Pow(op.constant(base, torch.float64), _between(op, start, end, steps, dtype)), dtype)


def _between(op: Builder, start: Any, end: Any, steps: Any, dtype: torch.dtype) -> Tensor:
    """Return evenly spaced float64 numbers, counted from the nearer end.

    For an integer dtype both ends are rounded to it first. torch rounds the step to float32, so that 0 in the middle of two ends
    may become a tiny number.
    """
    ends = (op.cast(bound, bound.dtype if isinstance(bound, Tensor) else torch.float64) for bound in (start, end))
    low, high = (op.cast(bound if dtype.is_floating_point else op.cast(bound, dtype), torch.float64) for bound in ends)
    steps = op.constant(steps, torch.int64)
    places, last = arange_of(op, 0, steps, 1, torch.int64), op.Sub(steps, 1)
    gaps = op.Where(op.Less(last, 1), op.constant(1), last)
    step = op.Div(op.Sub(high, low), op.cast(gaps, torch.float64))
    step = op.cast(op.cast(step, dtype), torch.float64) if dtype == torch.float32 else step
    up, down = (op.Mul(step, op.cast(each, torch.float64)) for each in (places, op.Sub(last, places)))
    return op.Where(op.Less(op.Mul(places, 2), gaps), op.Add(low, up), op.Sub(high, down))


@table("logspace")
def logspace(op: Builder, start: Any, end: Any, steps: Any, base: float, *options: Any) -> Tensor:
    """logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, ...) -> Tensor"""
    if not op.is_static([start, end, steps]):
        return logspace_between(op, start, end, steps, base, *options)
    start, end, steps = (op.static(bound) for bound in (start, end, steps))
    return op.constant(torch.logspace(start, end, steps, base, dtype=out_dtype(op)))


def valid_steps(op: Builder, steps: Any, lengths: Tensor) -> Tensor:
    """Return the mask (steps, batch) of the valid steps of a time-major batch."""
    time = op.Unsqueeze(arange_of(op, 0, steps, 1, torch.int64), [1])
    return op.Less(time, op.Unsqueeze(lengths, [0]))
