"""Cumulative sums, products and extremes along one dimension.

A Scan replaces operators that the opset lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import logaddexp, select
from onnxexp_aten.reduction.reductions import summable
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compare, compute, running_dtype
from onnxexp_aten.support.lower_by_table import lower_by
from onnxexp_aten.support.view_nodes import swapped

__all__ = ["running_sum", "table"]

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
    """Cumulative sum in the tensor's own dtype."""
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
    xs = swapped(op, x, axis, 0)
    result = op.scan(body, [_full_slice(op, xs, start, x.dtype)], [xs])[1]
    return _back(op, result, rank_of(op, x), axis)


def _extremes(op: Builder, worse: str, x: Tensor, dim: int, start: float) -> tuple[Tensor, Tensor]:
    def body(best: Tensor, place: Tensor, here: Tensor, element: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        better = op.Not(compare(op, worse, element, best))
        best, place = select(op, better, element, best), select(op, better, here, place)
        return [best, place, op.Add(here, 1)], [best, place]

    if x.rank == 0:
        return x, op.constant(0)
    if not x.dtype.is_floating_point:
        limits = torch.iinfo(torch.uint8 if x.dtype == torch.bool else x.dtype)
        start = limits.min if start < 0 else limits.max
    axis = axis_of(op, x, dim)
    xs = swapped(op, x, axis, 0)
    zeros = _full_slice(op, xs, 0, torch.int64)
    results = op.scan(body, [_full_slice(op, xs, start, x.dtype), zeros, op.constant(0)], [xs])
    values, places = (_back(op, result, rank_of(op, x), axis) for result in results[3:])
    return values, places


def _full_slice(op: Builder, xs: Tensor, value: Any, dtype: torch.dtype) -> Tensor:
    """Full tensor in the shape of a slice along axis 0.

    ONNX Runtime can infer its rank, which a Scan requires.
    """
    sizes = xs.shape[1:] if xs.shape is not None else ()
    if all(isinstance(size, int) for size in sizes):
        return filled(op, list(sizes), value, dtype)
    first = op.Gather(xs, 0, axis=0)
    zeros = op.cast(op.Xor(first, first) if first.dtype == torch.bool else compare(op, "Less", first, first), dtype)
    return compute(op, "Add", zeros, value) if value else zeros


def _back(op: Builder, stacked: Tensor, rank: int, axis: int) -> Tensor:
    order = list(range(rank))
    order[0], order[axis] = axis, 0
    return stacked if axis == 0 else op.Transpose(stacked, perm=order)
