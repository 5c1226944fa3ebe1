"""Histograms and bin counts."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.indexing.scatter import scatter_elements
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.math.comparison_and_bitwise import equal, relate
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.shape.concat_and_split import joined, stack
from onnxexp_aten.support.constant_of_shape import full_of, sizes_like
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import fixed, size_at
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


@table("bincount")
def bincount(op: Builder, self: Tensor, weights: Tensor | None, minlength: Any) -> Tensor:
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    places = op.cast(self, torch.int64)
    # append -1, because an empty tensor has no maximum
    largest = op.ReduceMax(op.cast(op.Concat(places, op.constant([-1]), axis=0), torch.int32), axes=[0], keepdims=0)
    size = extreme(op, "Max", op.Add(op.cast(largest, torch.int64), 1), op.cast(minlength, torch.int64))
    dtype = out_dtype(op)
    added = full_of(op, sizes_like(op, places), 1, dtype) if weights is None else op.cast(weights, dtype)
    return scatter_elements(op, full_of(op, [size], 0, dtype), 0, places, added, "add")


def _counted(op: Builder, bins: Tensor, count: int, inside: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Count 1-d elements in each bin, or sum their weights."""
    hit = op.And(op.Equal(unsqueezed(op, bins, [0]), op.constant(torch.arange(count)[:, None])), unsqueezed(op, inside, [0]))
    if weights is None:
        return op.cast(op.ReduceSum(op.cast(hit, torch.int32), axes=[1], keepdims=0), dtype)
    return reduced(op, "ReduceSum", select(op, hit, op.cast(weights, dtype), op.constant(0, dtype)), [1])


def _bounds(op: Builder, x: Tensor, low: Any, high: Any, margin: float = 1.0, dims: Any = None) -> tuple[Tensor, Tensor]:
    """Return the range of a histogram: as given, or that of the elements.

    An empty range grows by `margin` on both sides.
    """
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
    bins = int(op.static(bins, "the number of bins"))
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
    return op.Div(counts, op.Mul(_widths(op, edges, count), reduced(op, "ReduceSum", counts)))


def _widths(op: Builder, edges: Tensor, count: int) -> Tensor:
    return op.Sub(op.Slice(edges, [1], [count + 1], [0]), op.Slice(edges, [0], [count], [0]))


def _edges(op: Builder, least: Tensor, most: Tensor, counts: torch.Tensor) -> Tensor:
    """Compute the edges of equal bins of one axis, or of several as [axes, edges].

    Infinities fill up shorter rows.
    """
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
    low, high = range or (None, None)
    edges = _edges(op, *_bounds(op, self, low, high, 0.5), torch.tensor(bins))
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
    -> (Tensor hist, Tensor[] bin_edges)

    Other overloads take one number of bins for all axes, or the edges.
    """
    axes = size_at(op, self, rank_of(op, self) - 1)
    given: list[Any] = [bins] * axes if isinstance(bins, int) and isinstance(axes, int) else bins
    sizes = [size_at(op, each, 0) if isinstance(each, Tensor) else each + 1 for each in given]
    if not all(isinstance(size, int) for size in sizes) or 0 in (self.shape or ()):
        op.decline("the numbers of bins must be known at export, and there must be points")
    counts = [size - 1 for size in sizes if isinstance(size, int)]
    points = op.Transpose(op.Reshape(self, [-1, len(counts)]), perm=[1, 0])
    if isinstance(given[0], Tensor):
        edges, grid = given, _stacked(op, given, max(counts))
    else:
        low, high = map(op.constant, torch.tensor(range, dtype=self.dtype).view(-1, 2, 1).unbind(1)) if range else (None, None)
        grid = _edges(op, *_bounds(op, points, low, high, 0.5, [1]), torch.tensor(counts)[:, None])
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
    """Stack the edges of several axes, [axes, edges], padded with infinities."""
    padding = [op.constant([math.inf] * (most + 1 - size), each.dtype) for each in edges for size in fixed(each.shape or ())]
    return stack(op, [joined(op, list(pair), 0) for pair in zip(edges, padding, strict=True)], 0)


def _counted_points(op: Builder, points: Tensor, edges: Tensor, counts: list[int], weights: Tensor | None) -> Tensor:
    """Count points, [axes, points], in each bin, or sum their weights.

    The edges are [axes, edges].
    """
    x, each = unsqueezed(op, points, [1]), unsqueezed(op, edges, [2])
    reached, passed = (
        op.ReduceSum(op.cast(relate(op, name, each, x), torch.int64), axes=[1], keepdims=0) for name in ("LessOrEqual", "Less")
    )
    most, total = torch.tensor(counts)[:, None], math.prod(counts)
    steps = torch.tensor([math.prod(counts[axis + 1 :]) for axis, _ in enumerate(counts)])[:, None]
    inside = op.And(op.cast(reached, torch.bool), op.Less(passed, op.constant(most + 1)))
    bin_ = op.Sub(extreme(op, "Min", reached, op.constant(most)), 1)
    place = op.ReduceSum(op.Where(inside, op.Mul(bin_, op.constant(steps)), op.constant(total)), axes=[0], keepdims=0)
    place = extreme(op, "Min", place, op.constant(total))  # points outside are counted in an extra bin
    added = full_of(op, sizes_like(op, place), 1, points.dtype) if weights is None else op.cast(weights, points.dtype)
    found = scatter_elements(op, op.constant(torch.zeros(total + 1, dtype=points.dtype)), 0, place, added, "add")
    return op.Reshape(op.Slice(found, [0], [total], [0]), counts)
