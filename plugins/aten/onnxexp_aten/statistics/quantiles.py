"""Quantiles, with torch's interpolations."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.unary import ceil, floor, is_nan, round_
from onnxexp_aten.reduction.reductions import any_, reduced
from onnxexp_aten.statistics.sorting import top
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.kernel_dtypes import compare, compute
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
