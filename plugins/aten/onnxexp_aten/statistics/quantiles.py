"""Quantiles, with torch's interpolations; modes; and functions that ignore NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.unary import ceil, floor, is_nan, round_
from onnxexp_aten.reduction.reductions import any_, reduced, summable
from onnxexp_aten.statistics.sorting import top
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import permuted, squeezed, unsqueezed

table = SymbolicTable("aten")


@table("quantile", "quantile.scalar")
def quantile(op: Builder, self: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor"""
    return _quantile(op, _quantiles_of_all, self, q, dim, keepdim, interpolation)


@table("nanquantile", "nanquantile.scalar")
def nanquantile(op: Builder, self: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor"""
    return _quantile(op, _quantiles_without_nan, self, q, dim, keepdim, interpolation)


def _quantile(
    op: Builder, along_axis: Callable[..., Tensor], self: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """Compute quantiles with `along_axis`, and arrange the result.

    `along_axis` returns a tensor whose axis has as many elements as q.
    """
    rank, share = rank_of(op, self), op.cast(q, self.dtype)
    if rank == 0 and share.rank == 0:  # a 0-d tensor is its own quantile; interpolation turns an infinity into NaN
        picks_element = interpolation in _ROUNDINGS
        return self if picks_element else compute(op, "Add", self, compute(op, "Sub", self, self))
    flat = dim is None or rank == 0
    if not flat:
        x, axis = self, axis_of(op, self, dim)
    else:
        x, axis = self if rank == 1 else op.Reshape(self, [-1]), 0
    result = along_axis(op, x, axis, share if share.rank else unsqueezed(op, share, [0]), interpolation)
    if share.rank:  # the axis of quantiles moves to the front
        result = permuted(op, result, [axis, *(other for other in range(rank_of(op, result)) if other != axis)])
        reduced_axes = list(range(1, rank + 1)) if flat else [axis + 1]
        return unsqueezed(op, result, reduced_axes) if keepdim else result
    if not keepdim or rank == 0:
        return squeezed(op, result, [axis])
    return unsqueezed(op, result, range(1, rank)) if flat else result


def _quantiles_of_all(op: Builder, x: Tensor, axis: int, share: Tensor, interpolation: str) -> Tensor:
    """Compute quantiles of all elements: NaN where any element is NaN."""
    last = op.Sub(op.cast(size_at(op, x, axis), x.dtype), 1)
    ranks = compute(op, "Mul", share, last)
    count = size_at(op, x, axis) if ranks.const is None else math.ceil(ranks.const.max()) + 1
    values, _ = top(op, x, count, axis, largest=False)
    found = _elements_at(op, ranks, interpolation, lambda places: op.Gather(values, places, axis=axis), rank_of(op, x) - axis - 1)
    return select(op, any_(op, is_nan(op, x), [axis], True), op.constant(math.nan, x.dtype), found)


def _quantiles_without_nan(op: Builder, x: Tensor, axis: int, share: Tensor, interpolation: str) -> Tensor:
    """Compute quantiles of the elements that are not NaN: NaN where all are."""
    missing = is_nan(op, x)
    last = op.Sub(op.cast(size_at(op, x, axis), x.dtype), 1)
    last = compute(op, "Sub", last, reduced(op, "ReduceSum", op.cast(missing, x.dtype), [axis], True))
    ranks = compute(op, "Mul", unsqueezed(op, share, range(1, rank_of(op, x) - axis)), last)
    filled = select(op, missing, op.constant(math.inf, x.dtype), x)
    values, _ = top(op, filled, size_at(op, x, axis), axis, largest=False)
    found = _elements_at(op, ranks, interpolation, lambda places: gather(op, values, axis, places, False))
    if interpolation not in _ROUNDINGS:
        return found  # interpolation between two infinities is NaN
    return select(op, compare(op, "Less", last, 0), op.constant(math.nan, x.dtype), found)


_ROUNDINGS = MappingProxyType({"lower": floor, "higher": ceil, "nearest": round_})
"""Interpolations that pick one element, and the rounding of its rank."""


def _elements_at(op: Builder, ranks: Tensor, interpolation: str, pick: Callable[[Tensor], Tensor], trailing: int = 0) -> Tensor:
    """Return the elements at fractional ranks.

    `pick` returns the elements at integer ranks, with `trailing` more axes. As in torch's lerp, interpolation starts at the
    nearer neighbour, which decides where infinities give NaN.
    """

    def element(places: Tensor) -> Tensor:
        return pick(op.cast(places, torch.int64))

    if interpolation in _ROUNDINGS:
        return element(_ROUNDINGS[interpolation](op, ranks))
    if interpolation == "midpoint":
        near, far, fraction = ceil(op, ranks), floor(op, ranks), op.constant(0.5, ranks.dtype)
    else:
        near = floor(op, compute(op, "Add", ranks, 0.5))
        distance = compute(op, "Sub", ranks, near)
        far, fraction = compute(op, "Add", near, compute(op, "Sign", distance)), compute(op, "Abs", distance)
        fraction = unsqueezed(op, fraction, range(rank_of(op, fraction), rank_of(op, fraction) + trailing))
    start = element(near)
    return compute(op, "Add", start, compute(op, "Mul", compute(op, "Sub", element(far), start), fraction))


def _without(op: Builder, parts: tuple[Tensor, ...], axis: int, keepdim: bool) -> tuple[Tensor, ...]:
    return parts if keepdim else tuple(op.Squeeze(part, axes=[axis]) for part in parts)


@table("mode")
def mode(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices); the least of equally frequent ones"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    values, places = top(op, self, size_at(op, self, axis), axis, largest=False)
    pairs = equal(op, unsqueezed(op, values, [axis]), unsqueezed(op, values, [axis + 1]))
    counts = op.ReduceSum(op.cast(pairs, torch.int32), axes=[axis], keepdims=0)
    first = op.ArgMax(counts, axis=axis, keepdims=1)
    last = op.Sub(op.Add(first, op.cast(gather(op, counts, axis, first, False), torch.int64)), 1)
    return _without(op, (gather(op, values, axis, first, False), gather(op, places, axis, last, False)), axis, keepdim)


@table("nanmedian.dim")
def nanmedian_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    size = size_at(op, self, axis)
    last: Any = op.Sub(size, 1) if isinstance(size, Tensor) else size - 1
    if not self.dtype.is_floating_point:
        values, places = top(op, self, size, axis, largest=False)
        middle = op.Add(reduced(op, "ReduceSum", op.Mul(places, 0), [axis], True), op.Div(last, 2))
        return _without(op, tuple(gather(op, part, axis, middle, False) for part in (values, places)), axis, keepdim)
    missing = compare(op, "IsNaN", self)
    _, places = top(op, select(op, missing, op.constant(math.inf, self.dtype), self), size, axis, largest=False)
    middle = op.Div(op.Sub(last, op.ReduceSum(op.cast(missing, torch.int64), axes=[axis], keepdims=1)), 2)
    place = gather(op, places, axis, middle, False)
    return _without(op, (gather(op, self, axis, place, False), place), axis, keepdim)  # any element will do where all are NaN


@table("nanmedian")
def nanmedian(op: Builder, self: Tensor) -> Tensor:
    """nanmedian(Tensor self) -> Tensor"""
    return nanmedian_dim(op, op.Reshape(self, [-1]), 0, False)[0]


@table("nansum")
def nansum(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    known = select(op, is_nan(op, self), op.constant(0.0, self.dtype), self) if self.dtype.is_floating_point else self
    return reduced(op, "ReduceSum", summable(op, known, dtype), dim, keepdim)


@table("nanmean")
def nanmean(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    total = nansum(op, self, dim, keepdim, dtype)
    known = op.cast(op.Not(is_nan(op, self)), total.dtype)
    return compute(op, "Div", total, reduced(op, "ReduceSum", known, dim, keepdim))
