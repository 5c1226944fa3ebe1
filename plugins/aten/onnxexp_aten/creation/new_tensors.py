"""New tensors: of one number, of a range, of a pattern."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.composed_views import filled, size_at, unsqueezed, vector
from onnxexp_aten.support.kernel_dtypes import has_operator

__all__ = ["arange_of", "full_of", "out_dtype", "sizes_like", "table"]

table = SymbolicTable("aten")


def full_of(op: Builder, sizes: Any, value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor of one number, be it known at export or not; `sizes` as for `filled`."""
    if op.is_static(value):
        return filled(op, sizes, op.static(value), dtype)
    return op.Expand(op.cast(value, dtype), sizes if isinstance(sizes, Tensor) else vector(op, sizes))


def sizes_like(op: Builder, x: Tensor) -> Any:
    """The sizes of a tensor, as a list where they are static, else as a tensor."""
    if x.shape is not None and all(isinstance(size, int) for size in x.shape):
        return list(x.shape)
    return op.Shape(x)


def out_dtype(op: Builder) -> torch.dtype:
    """The dtype that the captured program knows of the result."""
    return op.node.outputs[0].type.dtype


@table("zeros", "empty.memory_format", "empty_strided", "empty_permuted")
def zeros(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 0, out_dtype(op))


@table("ones")
def ones(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 1, out_dtype(op))


@table("full")
def full(op: Builder, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, size, fill_value, out_dtype(op))


@table("zeros_like", "empty_like")
def zeros_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, sizes_like(op, self), 0, out_dtype(op))


@table("ones_like")
def ones_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, sizes_like(op, self), 1, out_dtype(op))


@table("full_like")
def full_like(op: Builder, self: Tensor, fill_value: Any, *options: Any) -> Tensor:
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, sizes_like(op, self), fill_value, out_dtype(op))


@table("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 0, out_dtype(op))


@table("new_ones")
def new_ones(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 1, out_dtype(op))


@table("new_full")
def new_full(op: Builder, self: Tensor, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, size, fill_value, out_dtype(op))


@table("scalar_tensor")
def scalar_tensor(op: Builder, s: Any, *options: Any) -> Tensor:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.cast(s, out_dtype(op))


# Ranges

_RANGE_DTYPES = (torch.int64, torch.int32, torch.int16, torch.float32, torch.float64)


def arange_of(op: Builder, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Tensor:
    """start, start + step, … below end."""
    if op.is_static([start, end, step]):
        start, end, step = (op.static(bound) for bound in (start, end, step))
        return op.constant(torch.arange(start, end, step, dtype=dtype))
    if not has_operator(op, "Range"):
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
    start, end, steps = (op.static(bound, "a bound") for bound in (start, end, steps))
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
    """Evenly spaced float64 numbers, counted from the nearer end. For an integer dtype both ends are of it."""
    ends = (op.cast(bound, bound.dtype if isinstance(bound, Tensor) else torch.float64) for bound in (start, end))
    low, high = (op.cast(bound if dtype.is_floating_point else op.cast(bound, dtype), torch.float64) for bound in ends)
    steps = int(op.static(steps, "the number of steps"))
    if steps == 1:
        return op.Reshape(low, [1])
    step = op.Div(op.Sub(high, low), float(steps - 1))
    numbers = torch.arange(steps, dtype=torch.float64)
    rising = op.Add(op.Mul(step, op.constant(numbers)), low)
    falling = op.Sub(high, op.Mul(step, op.constant(numbers.flip(0))))
    return op.Where(op.constant(torch.arange(steps) < steps // 2), rising, falling)


@table("logspace")
def logspace(op: Builder, start: Any, end: Any, steps: Any, base: float, *options: Any) -> Tensor:
    """logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, ...) -> Tensor"""
    start, end, steps = (op.static(bound, "a bound") for bound in (start, end, steps))
    return op.constant(torch.logspace(start, end, steps, base, dtype=out_dtype(op)))


# Patterns


@table("eye", "eye.m")
def eye(op: Builder, n: Any, *options: Any) -> Tensor:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, ...) -> Tensor"""
    dtype = out_dtype(op)
    m = options[0] if op.node.op == "aten::eye.m" else n
    if isinstance(n, int) and isinstance(m, int) and n * m <= _SMALL:
        return op.constant(torch.eye(n, m, dtype=dtype))
    compute = dtype if dtype in (torch.float32, torch.float64, torch.int64, torch.int32) else torch.float32
    return op.cast(op.EyeLike(filled(op, [n, m], 0, compute)), dtype)


_SMALL = 4096
"""Elements up to which a pattern is stored rather than computed."""


@table("tril_indices", "triu_indices")
def triangle_indices(op: Builder, row: int, col: int, offset: int, *options: Any) -> Tensor:
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, ...) -> Tensor"""
    make = torch.tril_indices if op.node.op == "aten::tril_indices" else torch.triu_indices
    return op.constant(make(row, col, offset, dtype=out_dtype(op)))


@table("tril")
def tril(op: Builder, self: Tensor, diagonal: Any) -> Tensor:
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(op, self, diagonal, upper=False)


@table("triu")
def triu(op: Builder, self: Tensor, diagonal: Any) -> Tensor:
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(op, self, diagonal, upper=True)


_TRILU_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)


def _triangle(op: Builder, x: Tensor, diagonal: Any, *, upper: bool) -> Tensor:
    if not has_operator(op, "Trilu"):
        return _masked_triangle(op, x, diagonal, upper=upper)
    shift = None if isinstance(diagonal, int) and diagonal == 0 else op.constant(diagonal, torch.int64)
    if x.dtype not in _TRILU_DTYPES:
        return op.cast(op.Trilu(op.cast(x, torch.int32), shift, upper=int(upper)), x.dtype)
    return op.Trilu(x, shift, upper=int(upper))


def _masked_triangle(op: Builder, x: Tensor, diagonal: Any, *, upper: bool) -> Tensor:
    """For opsets without Trilu."""
    rows, columns = (arange_of(op, 0, size_at(op, x, axis), 1, torch.int64) for axis in (-2, -1))
    limit = op.Add(unsqueezed(op, rows, [1]), diagonal)
    kept = op.Not(op.Less(columns, limit)) if upper else op.Not(op.Less(limit, columns))
    return select(op, kept, x, op.constant(0, x.dtype))


@table("one_hot")
def one_hot(op: Builder, self: Tensor, num_classes: int) -> Tensor:
    """one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    if self.rank == 0:
        return op.Reshape(_one_hot(op, op.Reshape(self, [1]), num_classes), [-1])
    return _one_hot(op, self, num_classes)


def _one_hot(op: Builder, self: Tensor, num_classes: int) -> Tensor:
    index = op.cast(self, torch.int64)
    depth = op.constant([num_classes], torch.int64)
    if num_classes == -1:
        largest = op.ReduceMax(op.cast(op.Reshape(index, [-1]), torch.int32), axes=[0], keepdims=1)
        depth = op.Add(op.cast(largest, torch.int64), 1)
    return op.OneHot(index, depth, op.constant([0, 1], torch.int64), axis=rank_of(op, self))
