"""Cumulative sums, products and extremes along one dimension.

A Scan replaces operators that the opset lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.functions_of_two import logaddexp
from onnxexp_aten.reduction.reductions import reduced, summable
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compare, compute, running_dtype, targets_plain_onnx
from onnxexp_aten.support.lower_by_table import lower_by
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import END, permuted, sliced, swapped, unsqueezed

table = SymbolicTable("aten")


@table("cumsum")
def cumsum(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = summable(op, self, dtype)
    return _running(op, x, dim, 0, lambda one, other: compute(op, "Add", one, other))


@table("cumsum", since=11)
def cumsum_11(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return _native(op, "CumSum", summable(op, self, dtype), dim)


def running_sum(op: Builder, x: Tensor, axis: int) -> Tensor:
    """Compute the cumulative sum in the tensor's own dtype."""
    return lower_by(op, table, "cumsum", x, axis, x.dtype)


@table("cumprod")
def cumprod(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = summable(op, self, dtype)
    return _running(op, x, dim, 1, lambda one, other: compute(op, "Mul", one, other))


@table("cumprod", since=26)
def cumprod_26(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return _native(op, "CumProd", summable(op, self, dtype), dim)


@table("prod")
def prod(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    x = summable(op, self, dtype)
    found = _reduced_exactly(op, self, x)
    if found is not None:
        return found
    flat = op.Reshape(x, [-1])
    return _product(op, flat, 0) if size_at(op, flat, 0) != 0 else op.constant(1, x.dtype)


@table("prod.dim_int")
def prod_dim(op: Builder, self: Tensor, dim: int, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    x = summable(op, self, dtype)
    found = _reduced_exactly(op, self, x, [dim], keepdim)
    if found is not None:
        return found
    axis = axis_of(op, x, dim)
    if size_at(op, x, axis) == 0:
        return reduced(op, "ReduceProd", x, [axis], keepdim)
    product = _product(op, x, axis)
    return unsqueezed(op, product, [axis]) if keepdim else product


def _reduced_exactly(op: Builder, given: Tensor, x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor | None:
    """Compute the product of `x` by ``ReduceProd``, or return None if that is inexact.

    `x` is cast from `given`. ONNX Runtime multiplies integers as float64: it rounds from 2**53 on, and saturates where torch's
    product wraps around.
    """
    exact = x.dtype.is_floating_point or given.dtype == torch.bool or x.rank == 0 or targets_plain_onnx(op)
    if not exact and x.const is None:
        return None
    product = reduced(op, "ReduceProd", x, dims, keepdim)
    return product if exact or product.const is not None else None


def _product(op: Builder, x: Tensor, axis: int) -> Tensor:
    """Compute the product along an axis, one slice after the other."""

    def body(so_far: Tensor, element: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        return [compute(op, "Mul", so_far, element)], []

    _, xs, first = _scanned(op, x, axis, 1)
    product: Tensor = op.scan(body, [first], [xs])[0]
    others = range(rank_of(op, x) - 1)  # the first axis took the place of the scanned one
    return product if axis == 0 else permuted(op, product, [axis - 1, *others[: axis - 1], *others[axis:]])


@table("logcumsumexp")
def logcumsumexp(op: Builder, self: Tensor, dim: int) -> Tensor:
    """logcumsumexp(Tensor self, int dim) -> Tensor"""
    return _running(op, self, dim, -math.inf, lambda one, other: logaddexp(op, one, other))


@table("cummax")
def cummax(op: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices); the last of equal elements"""
    return _extremes(op, "Less", self, dim, -math.inf)


@table("cummin")
def cummin(op: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices); the last of equal elements"""
    return _extremes(op, "Greater", self, dim, math.inf)


def _native(op: Builder, name: str, x: Tensor, dim: int) -> Tensor:
    if x.rank == 0:
        return x
    inner = running_dtype(op, name, x.dtype)
    return op.cast(op.call("", name, op.cast(x, inner), axis_of(op, x, dim)), x.dtype)


def _running(op: Builder, x: Tensor, dim: int, start: float, step: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    def body(so_far: Tensor, element: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        now = step(so_far, element)
        return [now], [now]

    if x.rank == 0:
        return x
    axis = axis_of(op, x, dim)
    padded, xs, first = _scanned(op, x, axis, start)
    result = op.scan(body, [first], [xs])[1]
    return _back(op, result, rank_of(op, x), axis, padded)


def _extremes(op: Builder, worse: str, x: Tensor, dim: int, start: float) -> tuple[Tensor, Tensor]:
    def body(best: Tensor, place: Tensor, here: Tensor, element: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        better = op.Not(compare(op, worse, element, best))
        if x.dtype.is_floating_point:  # NaN is better than every number, and comparisons with it are false
            better = op.Or(compare(op, "IsNaN", element), op.And(better, op.Not(compare(op, "IsNaN", best))))
        best, place = select(op, better, element, best), select(op, better, here, place)
        return [best, place, op.Add(here, 1)], [best, place]

    if x.rank == 0:
        return x, op.constant(0)
    if not x.dtype.is_floating_point:
        limits = torch.iinfo(torch.uint8 if x.dtype == torch.bool else x.dtype)
        start = limits.min if start < 0 else limits.max
    axis = axis_of(op, x, dim)
    padded, xs, first = _scanned(op, x, axis, start)
    zeros = _zeros_like(op, first)
    results = op.scan(body, [first, zeros, op.constant(-1 if padded else 0)], [xs])
    values, places = (_back(op, result, rank_of(op, x), axis, padded) for result in results[3:])
    return values, places


def _scanned(op: Builder, x: Tensor, axis: int, start: float) -> tuple[bool, Tensor, Tensor]:
    """Return whether a slice of `start` comes first, the slices, and the first state.

    ONNX Runtime's Scan fails without a slice, so one is added where the axis may be empty. It requires a state of known rank.
    """
    xs = swapped(op, x, axis, 0)
    sizes = xs.shape if xs.shape is not None else ("", "")
    if not isinstance(sizes[0], int):
        row = filled(op, [1, *(size_at(op, xs, other) for other in range(1, rank_of(op, x)))], start, x.dtype)
        xs = op.Concat(row, xs, axis=0)
        return True, xs, op.Gather(xs, 0, axis=0)
    if all(isinstance(size, int) for size in sizes[1:]):
        return False, xs, filled(op, list(sizes[1:]), start, x.dtype)
    zeros = op.cast(_zeros_like(op, op.Gather(xs, 0, axis=0)), x.dtype)
    return False, xs, compute(op, "Add", zeros, start) if start else zeros


def _zeros_like(op: Builder, x: Tensor) -> Tensor:
    """Return zeros of int64 in the shape of `x`."""
    return op.cast(op.Xor(x, x) if x.dtype == torch.bool else compare(op, "Less", x, x), torch.int64)


def _back(op: Builder, stacked: Tensor, rank: int, axis: int, padded: bool) -> Tensor:
    """Move the scanned axis back, without the slice that was added."""
    result = sliced(op, stacked, 0, 1, END) if padded else stacked
    return swapped(op, result, 0, axis)
