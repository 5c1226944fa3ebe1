"""Writing by index: every result is a new tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, axis_of, rank_of
from onnxexp_aten.creation import arange_of, full_of, sizes_like
from onnxexp_aten.indexing import (
    common_sizes,
    counted_from_front,
    flat_places,
    flattened,
    indices_and_axes,
    stacked_indices,
)
from onnxexp_aten.layout import END, expanded, permuted, reshaped, size_at, sizes_of, sliced, unsqueezed, vector
from onnxexp_aten.rearranging import diagonal_places

__all__ = ["scattered"]

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}
"""torch's names of reductions, and ONNX's."""


_SINCE = {"none": 9, "add": 16, "mul": 16, "max": 18, "min": 18}
"""The opset from which on ONNX's scatter operators know a reduction."""


def scattered(op: Builder, x: Tensor, axis: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    """ScatterElements, in dtypes for which there are kernels and of other operators where it lacks the reduction."""
    index = index if index.dtype in (torch.int32, torch.int64) else op.cast(index, torch.int64)
    if reduction != "none" and x.dtype == torch.bool:
        whole = [op.cast(tensor, torch.int32) for tensor in (x, source)]
        return op.cast(scattered(op, whole[0], axis, index, whole[1], reduction), x.dtype)
    if op.opset < _SINCE[reduction]:
        return _composed(op, x, axis, index, source, reduction)
    if op.opset < 11:
        return op.Scatter(x, counted_from_front(op, index, size_at(op, x, axis)), source, axis=axis)
    return op.ScatterElements(x, index, source, axis=axis, reduction=reduction)


_REDUCERS = {"add": ("ReduceSum", "Add"), "mul": ("ReduceProd", "Mul"), "max": ("ReduceMax", "Max"), "min": ("ReduceMin", "Min")}


def _composed(op: Builder, x: Tensor, axis: int, index: Tensor, source: Tensor, reduction: str) -> Tensor:
    """A scatter with a reduction by comparing each index with each place; it takes memory of both sizes multiplied."""
    others = [place for place in range(rank_of(op, x)) if place != axis]
    if any((index.shape or ())[place] != (x.shape or ())[place] for place in others):
        op.opset_error(f"a scatter that reduces by {reduction!r} into part of a tensor needs it", _SINCE[reduction])
    if x.dtype in (torch.float16, torch.int8, torch.int16, torch.uint8):
        wide = torch.float32 if x.dtype == torch.float16 else torch.int32
        return op.cast(_composed(op, op.cast(x, wide), axis, index, op.cast(source, wide), reduction), x.dtype)
    reduce, combine = _REDUCERS[reduction]
    places = arange_of(op, 0, size_at(op, x, axis), 1, torch.int64)
    places = unsqueezed(op, places, [place for place in range(rank_of(op, x) + 1) if place != axis])
    hits = op.Equal(unsqueezed(op, op.cast(index, torch.int64), [axis]), places)  # [..., places, indices, ...]
    torch_name = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    neutral = op.constant(_neutral(torch_name, x.dtype), x.dtype)
    kept = op.Where(hits, unsqueezed(op, source, [axis]), neutral)
    return op.call("", combine, x, op.call("", reduce, kept, axes=[axis + 1], keepdims=0))


def _like_index(op: Builder, source: Tensor, index: Tensor) -> Tensor:
    """A source as large as the index; torch lets it be larger."""
    axes = [axis for axis, size in enumerate(source.shape or ()) if size != (index.shape or ())[axis]]
    for axis in axes:
        source = sliced(op, source, axis, 0, size_at(op, index, axis))
    return source


def _flat(op: Builder, *tensors: Tensor) -> list[Tensor]:
    """0-d tensors as 1-d ones."""
    return [tensor if tensor.rank else op.Reshape(tensor, [1]) for tensor in tensors]


def _scatter(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    x, place, values = _flat(op, self, index, source)
    result = scattered(op, x, axis_of(op, x, dim), place, _like_index(op, values, place), reduction)
    return result if self.rank else op.Reshape(result, [])


@aten("scatter.src")
def scatter_src(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(op, self, dim, index, src)


@aten("scatter.value")
def scatter_value(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scatter(op, self, dim, index, full_of(op, sizes_like(op, index), value, self.dtype))


@aten("scatter.reduce")
def scatter_src_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Tensor:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scatter(op, self, dim, index, src, _REDUCTIONS[reduce])


@aten("scatter.value_reduce")
def scatter_value_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any, reduce: str) -> Tensor:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    return _scatter(op, self, dim, index, full_of(op, sizes_like(op, index), value, self.dtype), _REDUCTIONS[reduce])


@aten("scatter_add")
def scatter_add(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(op, self, dim, index, src, "add")


# Reductions

_NEUTRAL: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1, "amax": "lowest", "amin": "highest"}


def _neutral(reduce: str, dtype: torch.dtype) -> Any:
    """What a reduction of nothing starts from."""
    value = _NEUTRAL[reduce]
    if not isinstance(value, str):
        return value
    if dtype == torch.bool:
        return value == "highest"
    if dtype.is_floating_point:
        return float("-inf") if value == "lowest" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if value == "lowest" else limits.max


def _reduced(op: Builder, self: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """scatter_reduce, of which index_reduce is the case with one index for a whole slice."""
    start = self
    if not include_self:
        start = scattered(op, self, axis, index, full_of(op, sizes_like(op, index), _neutral(reduce, self.dtype), self.dtype))
    if reduce != "mean":
        return scattered(op, start, axis, index, source, _REDUCTIONS[reduce])
    total = scattered(op, start, axis, index, source, "add")
    ones = full_of(op, sizes_like(op, index), 1, self.dtype)
    count = scattered(op, full_of(op, sizes_like(op, self), int(include_self), self.dtype), axis, index, ones, "add")
    count = count if include_self else op.Max(count, 1)
    return op.Div(total, count) if self.dtype.is_floating_point else _floor_divided(op, total, count)


def _floor_divided(op: Builder, total: Tensor, count: Tensor) -> Tensor:
    quotient = op.Div(total, count)
    inexact = op.And(op.Less(total, 0), op.Not(op.Equal(op.Mul(quotient, count), total)))
    return op.Sub(quotient, op.cast(inexact, total.dtype))


@aten("scatter_reduce.two")
def scatter_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""
    x, place, source = _flat(op, self, index, src)
    result = _reduced(op, x, axis_of(op, x, dim), place, _like_index(op, source, place), reduce, include_self)
    return result if self.rank else op.Reshape(result, [])


@aten("index_reduce")
def index_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"""
    axis = axis_of(op, self, dim)
    return _reduced(op, self, axis, _spread(op, index, source, axis), source, reduce, include_self)


# One index for a whole slice


def _spread(op: Builder, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """A 1-d index at the sizes of the slices that it is for."""
    (flat,) = _flat(op, index)
    rank = rank_of(op, source)
    wide = unsqueezed(op, flat, [place for place in range(rank) if place != axis])
    if source.shape is not None and all(isinstance(size, int) for size in source.shape):
        return op.Expand(wide, list(source.shape))
    return op.Expand(wide, op.Shape(source))


def _written(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    x, values = _flat(op, self, source)
    axis = axis_of(op, x, dim)
    if axis == 0 and op.opset >= max(11, _SINCE[reduction]):
        (flat,) = _flat(op, index)
        places = unsqueezed(op, op.cast(flat, torch.int64), [1])
        result = op.ScatterND(x, places, values, reduction=reduction)
    else:
        result = scattered(op, x, axis, _spread(op, index, values, axis), values, reduction)
    return result if self.rank else op.Reshape(result, [])


@aten("index_copy")
def index_copy(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    if self.rank and source.rank == 0:
        source = op.Expand(source, [1] * rank_of(op, self))
    return _written(op, self, dim, index, source)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    x, flat = _flat(op, self, index)
    axis = axis_of(op, x, dim)
    sizes = [size_at(op, x, place) for place in range(rank_of(op, x))]
    sizes[axis] = size_at(op, flat, 0)
    return _written(op, self, axis, flat, full_of(op, sizes, value, self.dtype))


@aten("index_add")
def index_add(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        source = op.Mul(source, op.cast(alpha, source.dtype))
    return _written(op, self, dim, index, source, "add")


# self[...] = values


@aten(
    "index_put",
    "index_put.hacked_twin",
    "_unsafe_index_put",
    "_unsafe_index_put.hacked_twin",
    "_index_put_impl",
)
def index_put(op: Builder, self: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool, *unsafe: Any) -> Tensor:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    values = op.cast(values, self.dtype)
    given = [one for one in indices if one is not None]
    if not given:
        return op.Add(self, values) if accumulate else _filled_with(op, self, values)
    if len(given) == 1 and given[0].dtype in (torch.bool, torch.uint8) and _is_one(values):
        return _masked_put(op, self, given[0], indices.index(given[0]), values, accumulate)
    tensors, axes = indices_and_axes(op, self, indices)
    if accumulate and op.opset < _SINCE["add"]:
        return _accumulated(op, self, tensors, axes, values)
    rest = [axis for axis in range(rank_of(op, self)) if axis not in axes]
    common = common_sizes(op, tensors)
    order = [*axes, *rest]
    front = permuted(op, self, order)
    if self.dtype == torch.bool and accumulate:
        op.decline("adding up bools")
    if op.opset < 11:
        result = _put_flat(op, self, front, tensors, axes, values)
    else:
        places = stacked_indices(op, tensors, common)
        updates = _values(op, self, values, places, axes, rest, len(common))
        result = op.ScatterND(front, places, updates, reduction="add" if accumulate else "none")
    return permuted(op, result, [order.index(axis) for axis in range(len(order))])


def _accumulated(op: Builder, self: Tensor, tensors: list[Tensor], axes: list[int], values: Tensor) -> Tensor:
    """Adding up by one 1-d index, for opsets whose ScatterND cannot add."""
    if len(tensors) > 1 or tensors[0].rank != 1:
        op.opset_error("adding up at places that several index tensors give needs it", _SINCE["add"])
    sizes = [size_at(op, self, axis) for axis in range(rank_of(op, self))]
    sizes[axes[0]] = size_at(op, tensors[0], 0)
    index = counted_from_front(op, tensors[0], size_at(op, self, axes[0]))
    return _written(op, self, axes[0], index, op.Expand(values, vector(op, sizes)), "add")


def _is_one(values: Tensor) -> bool:
    return values.shape is not None and all(size == 1 for size in values.shape)


def _filled_with(op: Builder, x: Tensor, values: Tensor) -> Tensor:
    return expanded(op, values, x.shape or (), others=[x])


def _masked_put(op: Builder, self: Tensor, mask: Tensor, axis: int, value: Tensor, accumulate: bool) -> Tensor:
    """One value wherever a mask says so."""
    behind = rank_of(op, self) - axis - rank_of(op, mask)
    mask = unsqueezed(op, op.cast(mask, torch.bool), range(rank_of(op, mask), rank_of(op, mask) + behind))
    value = value if value.rank == 0 else op.Reshape(value, [])
    return chosen(op, mask, op.Add(self, value) if accumulate else value, self)


def chosen(op: Builder, mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Where, in dtypes for which there are kernels."""
    compute = {torch.bool: torch.uint8, torch.int8: torch.int32, torch.int16: torch.int32}.get(other.dtype, other.dtype)
    return op.cast(op.Where(mask, op.cast(one, compute), op.cast(other, compute)), other.dtype)


def _values(op: Builder, self: Tensor, values: Tensor, places: Tensor, axes: list[int], rest: list[int], width: int) -> Tensor:
    """The values as ScatterND wants them: the sizes of the indices, then those of the axes that are not indexed."""
    consecutive = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if consecutive else 0
    sizes = [size_at(op, places, axis) for axis in range(width)]
    kept = [size_at(op, self, axis) for axis in rest]
    target = [*kept[:before], *sizes, *kept[before:]]
    if tuple(values.shape or ()) != tuple(target):
        values = op.Expand(values, vector(op, target))
    order = [*range(before, before + width), *range(before), *range(before + width, len(target))]
    return permuted(op, values, order)


def _put_flat(op: Builder, self: Tensor, front: Tensor, tensors: list[Tensor], axes: list[int], values: Tensor) -> Tensor:
    """For opsets without ScatterND: the indexed axes of `front` as one, and Scatter along it."""
    rest = [axis for axis in range(rank_of(op, self)) if axis not in axes]
    places = flat_places(op, front, tensors)
    updates = _values(op, self, values, places, axes, rest, rank_of(op, places))
    kept = [size_at(op, self, axis) for axis in rest]
    updates = op.Reshape(updates, vector(op, [-1, *kept]))
    wide = op.Expand(op.Reshape(places, [-1] + [1] * len(rest)), op.Shape(updates))
    written = op.Scatter(flattened(op, front, len(axes)), wide, updates, axis=0)
    return op.Reshape(written, vector(op, [size_at(op, front, axis) for axis in range(rank_of(op, front))]))


@aten("masked_scatter")
def masked_scatter(op: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    sizes = common_sizes(op, [self, mask])
    self, mask = (expanded(op, tensor, sizes, others=[self, mask]) for tensor in (self, op.cast(mask, torch.bool)))
    flat = mask if mask.rank == 1 else op.Reshape(mask, [-1])
    numbers = op.Sub(op.CumSum(op.cast(flat, torch.int64), 0), op.constant(1, torch.int64))
    numbers = op.Where(flat, numbers, op.constant(0, torch.int64))
    taken = op.Gather(source if source.rank == 1 else op.Reshape(source, [-1]), numbers, axis=0)
    return chosen(op, mask, reshaped(op, taken, sizes) if _constant(sizes) else op.Reshape(taken, op.Shape(self)), self)


def _constant(sizes: Sequence[Any]) -> bool:
    return sum(not isinstance(size, int) for size in sizes) <= 1


@aten("put")
def put(op: Builder, self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    places, values = op.Reshape(index, [-1]), op.Reshape(source, [-1])
    result = scattered(op, op.Reshape(self, [-1]), 0, places, values, "add" if accumulate else "none")
    return op.Reshape(result, op.Shape(self))


# Parts replaced


def _replaced(op: Builder, self: Tensor, src: Tensor, axis: int, start: Any, end: Any) -> Tensor:
    """`src` between what is before `start` and what is from `end` on."""
    parts = [src]
    if not (isinstance(start, int) and start == 0):
        parts.insert(0, sliced(op, self, axis, 0, start))
    size = self.shape[axis] if self.shape else None
    if not (isinstance(end, int) and (end >= END or (isinstance(size, int) and end >= size))):
        parts.append(sliced(op, self, axis, end, END))
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


@aten("slice_scatter")
def slice_scatter(op: Builder, self: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: Any) -> Tensor:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    axis, src, step = axis_of(op, self, dim), op.cast(src, self.dtype), op.static(step, "step")
    start, end = 0 if start is None else start, END if end is None else end
    length = src.shape[axis] if src.shape else None
    if isinstance(length, int) and length == 0:
        return self
    if step == 1 and self.shape is not None and length == self.shape[axis]:
        return src
    if step == 1:
        return _replaced(op, self, src, axis, start, end)
    size = size_at(op, self, axis)
    if isinstance(size, int) and op.is_static([start, end]):
        places: Tensor = op.constant(torch.arange(size)[op.static(start) : op.static(end) : step])
    else:
        places = sliced(op, arange_of(op, 0, size, 1, torch.int64), 0, start, end, step)
    return _written(op, self, axis, places, src)


@aten("select_scatter")
def select_scatter(op: Builder, self: Tensor, src: Tensor, dim: int, index: Any) -> Tensor:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(op, self, dim)
    layer = unsqueezed(op, op.cast(src, self.dtype), [axis])
    size = size_at(op, self, axis)
    if isinstance(index, int):
        start = index + size if index < 0 and isinstance(size, int) else index
        return _replaced(op, self, layer, axis, start, END if start == -1 else start + 1)
    return _replaced(op, self, layer, axis, index, op.Add(index, 1))


@aten("diagonal_scatter")
def diagonal_scatter(op: Builder, self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    one, other, rank = axis_of(op, self, dim1), axis_of(op, self, dim2), rank_of(op, self)
    order = [*(axis for axis in range(rank) if axis not in (one, other)), one, other]
    matrices = permuted(op, self, order)
    places = diagonal_places(op, size_at(op, self, one), size_at(op, self, other), offset)
    flat = op.Reshape(matrices, [0] * (rank - 2) + [-1])
    written = _written(op, flat, rank - 2, places, op.cast(src, self.dtype))
    back = op.Reshape(written, vector(op, [size_at(op, self, axis) for axis in order]))
    return permuted(op, back, [order.index(axis) for axis in range(rank)])


@aten("fill.Scalar", "fill.Tensor")
def fill(op: Builder, self: Tensor, value: Any) -> Tensor:
    """fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return full_of(op, sizes_like(op, self), value, self.dtype)


@aten("copy")
def copy(op: Builder, self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return expanded(op, op.cast(src, self.dtype), sizes_of(op) or (), others=[self])
