"""What is most frequent or in the middle, and counts: mode, medians and means without NaN, histograms, sums over segments."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.new_tensors import arange_of, full_of, out_dtype, sizes_like
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.indexing.scatter import scattered
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.math.comparison import equal, relate
from onnxexp_aten.math.unary import is_nan
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.reduction.reductions import reduced, summable
from onnxexp_aten.shape.concatenation import joined, stack
from onnxexp_aten.statistics.sorting import top
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.composed_views import size_at, unsqueezed
from onnxexp_aten.support.kernel_dtypes import compare, compute

__all__ = ["table"]

table = SymbolicTable("aten")


def _without(op: Builder, parts: tuple[Tensor, ...], axis: int, keepdim: bool) -> tuple[Tensor, ...]:
    return parts if keepdim else tuple(op.Squeeze(part, axes=[axis]) for part in parts)


@table("mode")
def mode(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices): of equally frequent ones the least"""
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
    return _without(op, (gather(op, self, axis, place, False), place), axis, keepdim)  # where all are NaN, any of them


@table("nanmedian")
def nanmedian(op: Builder, self: Tensor) -> Tensor:
    """nanmedian(Tensor self) -> Tensor"""
    return nanmedian_dim(op, op.Reshape(self, [-1]), 0, False)[0]


# Counts


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


@table("bincount")
def bincount(op: Builder, self: Tensor, weights: Tensor | None, minlength: Any) -> Tensor:
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    places = op.cast(self, torch.int64)
    # A -1 beside the elements: without any, nothing is the largest.
    largest = op.ReduceMax(op.cast(op.Concat(places, op.constant([-1]), axis=0), torch.int32), axes=[0], keepdims=0)
    size = extreme(op, "Max", op.Add(op.cast(largest, torch.int64), 1), op.cast(minlength, torch.int64))
    dtype = out_dtype(op)
    added = full_of(op, sizes_like(op, places), 1, dtype) if weights is None else op.cast(weights, dtype)
    return scattered(op, full_of(op, [size], 0, dtype), 0, places, added, "add")


def _counted(op: Builder, bins: Tensor, count: int, inside: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
    """How many of the elements (1-d) are in each bin, or the sum of their weights."""
    hit = op.And(op.Equal(unsqueezed(op, bins, [0]), op.constant(torch.arange(count)[:, None])), unsqueezed(op, inside, [0]))
    if weights is None:
        return op.cast(op.ReduceSum(op.cast(hit, torch.int32), axes=[1], keepdims=0), dtype)
    return reduced(op, "ReduceSum", select(op, hit, op.cast(weights, dtype), op.constant(0, dtype)), [1])


def _bounds(op: Builder, x: Tensor, low: Any, high: Any, margin: float = 1.0, dims: Any = None) -> tuple[Tensor, Tensor]:
    """The range of a histogram: as given, or that of the elements along `dims`; never empty, but `margin` wide on both sides."""
    if low is None:
        least, most = (reduced(op, name, x, dims, dims is not None) for name in ("ReduceMin", "ReduceMax"))
    else:
        least, most = op.cast(low, x.dtype), op.cast(high, x.dtype)
    alike = op.Mul(op.cast(equal(op, least, most), x.dtype), margin)
    return compute(op, "Sub", least, alike), compute(op, "Add", most, alike)


@table("histc")
def histc(op: Builder, self: Tensor, bins: int, min: Any, max: Any) -> Tensor:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    if not self.dtype.is_floating_point:
        return op.cast(histc(op, op.cast(self, torch.float64), bins, min, max), self.dtype)
    x = op.Reshape(self, [-1])
    least, most = _bounds(op, x, *((None, None) if min == max == 0 else (min, max)))
    share = op.Div(op.Mul(op.Sub(x, least), float(bins)), op.Sub(most, least))
    inside = op.And(relate(op, "GreaterOrEqual", x, least), relate(op, "LessOrEqual", x, most))
    bin_ = extreme(op, "Min", op.cast(compute(op, "Floor", share), torch.int64), op.constant(bins - 1))
    return _counted(op, bin_, bins, inside, None, self.dtype)


def _histogram(op: Builder, x: Tensor, edges: Tensor, count: int, weights: Tensor | None, density: bool) -> Tensor:
    x, last = op.Reshape(x, [-1]), op.Gather(edges, count, axis=0)
    below = relate(op, "LessOrEqual", unsqueezed(op, edges, [1]), unsqueezed(op, x, [0]))
    bin_ = op.Sub(op.ReduceSum(op.cast(below, torch.int64), axes=[0], keepdims=0), 1)
    bin_ = extreme(op, "Min", bin_, op.constant(count - 1))
    inside = relate(op, "LessOrEqual", x, last)
    flat = None if weights is None else op.Reshape(weights, [-1])
    counts = _counted(op, bin_, count, inside, flat, x.dtype)
    if not density:
        return counts
    return op.Div(counts, op.Mul(_widths(op, edges, count), reduced(op, "ReduceSum", counts)))  # type: ignore[no-any-return]


def _widths(op: Builder, edges: Tensor, count: int) -> Tensor:
    return op.Sub(op.Slice(edges, [1], [count + 1], [0]), op.Slice(edges, [0], [count], [0]))  # type: ignore[no-any-return]


def _edges(op: Builder, least: Tensor, most: Tensor, counts: torch.Tensor) -> Tensor:
    """Those of so many bins of one width, of one axis or, [axes, edges], of several: then infinities follow the last ones."""
    numbers = torch.arange(int(counts.max()) + 1)
    step = op.Div(op.Sub(most, least), op.constant(counts.to(least.dtype)))
    rising = op.Add(op.Mul(step, op.constant(numbers.to(least.dtype))), least)
    falling = op.Sub(most, op.Mul(step, op.constant((counts - numbers).to(least.dtype))))
    edges: Tensor = op.Where(op.constant(numbers < (counts + 1) // 2), rising, falling)
    return (
        edges
        if counts.eq(counts.max()).all()
        else op.Where(op.constant(numbers <= counts), edges, op.cast(math.inf, edges.dtype))
    )


@table("histogram.bin_ct")
def histogram(op: Builder, self: Tensor, bins: int, range: Any, weight: Tensor | None, density: bool) -> tuple[Tensor, Tensor]:
    """histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)
    -> (Tensor hist, Tensor bin_edges)"""
    edges = _edges(op, *_bounds(op, self, *(range or (None, None)), 0.5), torch.tensor(bins))
    return _histogram(op, self, edges, bins, weight, density), edges


@table("histogram.bins_tensor")
def histogram_edges(op: Builder, self: Tensor, bins: Tensor, weight: Tensor | None, density: bool) -> tuple[Tensor, Tensor]:
    """histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor, Tensor)"""
    size = size_at(op, bins, 0)
    if isinstance(size, Tensor):
        raise op.error("the number of bins must be known at export")
    return _histogram(op, self, bins, size - 1, weight, density), bins


@table("histogramdd", "histogramdd.int_bins", "histogramdd.TensorList_bins")
def histogramdd(op: Builder, self: Tensor, bins: Any, range: Any, weight: Tensor | None, density: bool) -> list[Tensor]:
    """histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False)
    -> (Tensor hist, Tensor[] bin_edges), of points; also with one number of bins for all axes, or with their edges"""
    axes = size_at(op, self, rank_of(op, self) - 1)
    given = [bins] * axes if isinstance(bins, int) and isinstance(axes, int) else bins
    sizes = [size_at(op, each, 0) if isinstance(each, Tensor) else each + 1 for each in given]
    if not all(isinstance(size, int) for size in sizes) or 0 in (self.shape or ()):
        op.decline("it is lowered for some points, and as many bins as are known at export")
    counts = [int(size) - 1 for size in sizes]
    points = op.Transpose(op.Reshape(self, [-1, len(counts)]), perm=[1, 0])
    if isinstance(given[0], Tensor):
        edges, grid = given, _stacked(op, given, max(counts))
    else:
        ends = torch.tensor(range, dtype=self.dtype).view(-1, 2, 1).unbind(1) if range else (None, None)
        bounds = _bounds(op, points, *(end if end is None else op.constant(end) for end in ends), 0.5, [1])
        grid = _edges(op, *bounds, torch.tensor(counts)[:, None])
        rows = [op.Gather(grid, number, axis=0) for number, _ in enumerate(counts)]
        edges = [
            row if count == max(counts) else op.Slice(row, [0], [count + 1], [0]) for row, count in zip(rows, counts, strict=True)
        ]
    found = _counted_points(op, points, grid, counts, None if weight is None else op.Reshape(weight, [-1]))
    if density:
        found = op.Div(found, reduced(op, "ReduceSum", found))
        for number, (each, count) in enumerate(zip(edges, counts, strict=True)):
            others = [other for other, _ in enumerate(counts) if other != number]
            found = op.Div(found, unsqueezed(op, _widths(op, each, count), others))
    return [found, *edges]


def _stacked(op: Builder, edges: list[Tensor], most: int) -> Tensor:
    """The edges of several axes, [axes, edges], infinities after the last ones."""
    padding = [op.constant([math.inf] * (most + 1 - int(size)), each.dtype) for each in edges for size in each.shape or ()]
    return stack(op, [joined(op, list(pair), 0) for pair in zip(edges, padding, strict=True)], 0)


def _counted_points(op: Builder, points: Tensor, edges: Tensor, counts: list[int], weights: Tensor | None) -> Tensor:
    """How many points, [axes, points], are in each bin, or the sum of their weights; the edges are [axes, edges]."""
    x, each = unsqueezed(op, points, [1]), unsqueezed(op, edges, [2])
    reached, passed = (
        op.ReduceSum(op.cast(relate(op, name, each, x), torch.int64), axes=[1], keepdims=0) for name in ("LessOrEqual", "Less")
    )
    most, total = torch.tensor(counts)[:, None], math.prod(counts)
    steps = torch.tensor([math.prod(counts[axis + 1 :]) for axis, _ in enumerate(counts)])[:, None]
    inside = op.And(op.cast(reached, torch.bool), op.Less(passed, op.constant(most + 1)))
    bin_ = op.Sub(extreme(op, "Min", reached, op.constant(most)), 1)
    place = op.ReduceSum(op.Where(inside, op.Mul(bin_, op.constant(steps)), op.constant(total)), axes=[0], keepdims=0)
    place = extreme(op, "Min", place, op.constant(total))  # what is outside is counted behind the bins
    added = full_of(op, sizes_like(op, place), 1, points.dtype) if weights is None else op.cast(weights, points.dtype)
    found = scattered(op, op.constant(torch.zeros(total + 1, dtype=points.dtype)), 0, place, added, "add")
    return op.Reshape(op.Slice(found, [0], [total], [0]), counts)  # type: ignore[no-any-return]


# Segments

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_REDUCERS = {"sum": "ReduceSum", "mean": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
_COMBINE = {"sum": "Add", "mean": "Add", "prod": "Mul", "max": "Max", "min": "Min"}


@table("segment_reduce")
def segment_reduce(
    op: Builder,
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: Any,
) -> Tensor:
    """segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0,
    bool unsafe=False, Scalar? initial=None) -> Tensor"""
    starts, ends = _segments(op, lengths, offsets)
    rank, first = rank_of(op, data), rank_of(op, starts) - 1
    place = arange_of(op, 0, size_at(op, data, first), 1, torch.int64)
    inside = op.And(
        relate(op, "LessOrEqual", unsqueezed(op, starts, [first + 1]), place),
        relate(op, "Less", place, unsqueezed(op, ends, [first + 1])),
    )  # [..., segments, elements]
    mask = unsqueezed(op, inside, range(first + 2, rank + 1))
    neutral = op.constant(_NEUTRAL[reduce], data.dtype)
    kept = select(op, mask, unsqueezed(op, data, [first]), neutral)
    result = compute(op, _REDUCERS[reduce], kept, axes=[first + 1], keepdims=0)
    if initial is not None:
        start = op.cast(initial, data.dtype)
        combine = _COMBINE[reduce]
        result = extreme(op, combine, result, start) if reduce in ("max", "min") else compute(op, combine, result, start)
    if reduce != "mean":
        return result
    count = unsqueezed(op, op.cast(op.Sub(ends, starts), data.dtype), range(first + 1, rank))
    if initial is None:
        return compute(op, "Div", result, count)
    return select(op, op.cast(count, torch.bool), compute(op, "Div", result, count), op.cast(initial, data.dtype))


def _segments(op: Builder, lengths: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where the segments begin and end, int64."""
    if lengths is not None:
        wide, last = op.cast(lengths, torch.int64), rank_of(op, lengths) - 1
        ends = running_sum(op, wide, last)
        return op.Sub(ends, wide), ends
    assert offsets is not None
    last, wide = rank_of(op, offsets) - 1, op.cast(offsets, torch.int64)
    return op.Slice(wide, [0], [-1], [last]), op.Slice(wide, [1], [2**63 - 1], [last])
