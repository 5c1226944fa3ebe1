"""Assignment by index, mask or slice; every result is a new tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.indexing.gather import clamped_indices, common_sizes, flat_places, flattened, indices_and_axes, stacked_indices
from onnxexp_aten.indexing.scatter import can_reduce, reducing_dtype, scatter_elements, scatter_slices
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.shape.diagonals import diagonal_places, strided_places
from onnxexp_aten.support.constant_of_shape import full_of, sizes_like
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of, vector
from onnxexp_aten.support.view_nodes import END, expanded, permuted, reshaped, sliced, squeezed, unsqueezed

table = SymbolicTable("aten")


# By index and by mask


@table(
    "index_put",
    "index_put.hacked_twin",
    "_unsafe_index_put",
    "_unsafe_index_put.hacked_twin",
    "_index_put_impl",
)
def index_put(op: Builder, self: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool, *unsafe: Any) -> Tensor:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    if accumulate and reducing_dtype(op, self.dtype) != self.dtype:
        return op.cast(index_put(op, op.cast(self, reducing_dtype(op, self.dtype)), indices, values, accumulate), self.dtype)
    values = op.cast(values, self.dtype)
    given = [one for one in indices if one is not None]
    if not given:
        return compute(op, "Add", self, values) if accumulate else _filled_with(op, self, values)
    if len(given) == 1 and given[0].dtype in (torch.bool, torch.uint8) and _is_one(values):
        return _masked_put(op, self, given[0], indices.index(given[0]), values, accumulate)
    tensors, axes = indices_and_axes(op, self, indices)
    rest = [axis for axis in range(rank_of(op, self)) if axis not in axes]
    common = common_sizes(op, tensors)
    values = squeezed(op, values, range(rank_of(op, values) - len(common) - len(rest)))  # axes in front are 1 long
    order = [*axes, *rest]
    front = permuted(op, self, order)
    reduction = "add" if accumulate else "none"
    if can_reduce(op, reduction):
        places = stacked_indices(op, tensors, common)
        updates = _values(op, self, values, places, axes, rest, len(common))
        result = op.ScatterND(front, places, updates, reduction=reduction)
    else:
        result = _put_flat(op, self, front, tensors, axes, values, reduction)
    return permuted(op, result, [order.index(axis) for axis in range(len(order))])


@table("_unsafe_masked_index_put_accumulate")
def unsafe_masked_add(op: Builder, self: Tensor, mask: Tensor, indices: list[Tensor | None], values: Tensor) -> Tensor:
    """_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor"""
    return index_put(op, self, clamped_indices(op, self, indices), select(op, mask, values, op.constant(0, values.dtype)), True)


def _is_one(values: Tensor) -> bool:
    return values.shape is not None and all(size == 1 for size in values.shape)


def _filled_with(op: Builder, x: Tensor, values: Tensor) -> Tensor:
    return expanded(op, values, x.shape or (), others=[x])


def _masked_put(op: Builder, self: Tensor, mask: Tensor, axis: int, value: Tensor, accumulate: bool) -> Tensor:
    """Write one value wherever a mask is True."""
    behind = rank_of(op, self) - axis - rank_of(op, mask)
    mask = unsqueezed(op, op.cast(mask, torch.bool), range(rank_of(op, mask), rank_of(op, mask) + behind))
    value = value if value.rank == 0 else op.Reshape(value, [])
    return select(op, mask, compute(op, "Add", self, value) if accumulate else value, self)


def _values(op: Builder, self: Tensor, values: Tensor, places: Tensor, axes: list[int], rest: list[int], width: int) -> Tensor:
    """Arrange the values as the updates of ScatterND.

    The axes of the indices come first, then the axes that are not indexed.
    """
    consecutive = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if consecutive else 0
    sizes = [size_at(op, places, axis) for axis in range(width)]
    kept = [size_at(op, self, axis) for axis in rest]
    target = [*kept[:before], *sizes, *kept[before:]]
    if tuple(values.shape or ()) != tuple(target):
        values = op.Expand(values, vector(op, target))
    order = [*range(before, before + width), *range(before), *range(before + width, len(target))]
    return permuted(op, values, order)


def _put_flat(
    op: Builder, self: Tensor, front: Tensor, tensors: list[Tensor], axes: list[int], values: Tensor, reduction: str
) -> Tensor:
    """Write along the indexed axes flattened into one.

    Opsets whose ScatterND is missing or has no reductions need this form.
    """
    rest = [axis for axis in range(rank_of(op, self)) if axis not in axes]
    places = flat_places(op, front, tensors)
    updates = flattened(op, _values(op, self, values, places, axes, rest, rank_of(op, places)), rank_of(op, places))
    flat = flattened(op, front, len(axes))
    if reduction == "none":
        wide = op.Expand(op.Reshape(places, [-1] + [1] * len(rest)), op.Shape(updates))
        result = scatter_elements(op, flat, 0, wide, updates)
    else:
        result = scatter_slices(op, flat, 0, op.Reshape(places, [-1]), updates, reduction)
    return op.Reshape(result, vector(op, [size_at(op, front, axis) for axis in range(rank_of(op, front))]))


@table("masked_scatter")
def masked_scatter(op: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    sizes = common_sizes(op, [self, mask])
    self, mask = (expanded(op, tensor, sizes, others=[self, mask]) for tensor in (self, op.cast(mask, torch.bool)))
    flat = mask if mask.rank == 1 else op.Reshape(mask, [-1])
    numbers = op.Sub(running_sum(op, op.cast(flat, torch.int64), 0), op.constant(1, torch.int64))
    numbers = op.Where(flat, numbers, op.constant(0, torch.int64))
    values = source if source.rank == 1 else op.Reshape(source, [-1])
    if not all(isinstance(size, int) and size for size in source.shape or [0]):  # it may be empty, and Gather needs an element
        values = op.Concat(values, op.constant([0], source.dtype), axis=0)
    taken = op.Gather(values, numbers, axis=0)
    placed = reshaped(op, taken, sizes) if _constant(sizes) else op.Reshape(taken, op.Shape(self))
    return select(op, mask, placed, self)


def _constant(sizes: Sequence[Any]) -> bool:
    return sum(not isinstance(size, int) for size in sizes) <= 1


@table("put")
def put(op: Builder, self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    places, values = op.Reshape(index, [-1]), op.Reshape(source, [-1])
    result = scatter_elements(op, op.Reshape(self, [-1]), 0, places, values, "add" if accumulate else "none")
    return op.Reshape(result, op.Shape(self))


# Slices, diagonals and strided views


def _replaced(op: Builder, self: Tensor, src: Tensor, axis: int, start: Any, end: Any) -> Tensor:
    """Join the part before `start`, `src`, and the part from `end` on."""
    parts = [src]
    if not (isinstance(start, int) and start == 0):
        parts.insert(0, sliced(op, self, axis, 0, start))
    size = self.shape[axis] if self.shape else None
    if not (isinstance(end, int) and (end >= END or (isinstance(size, int) and end >= size))):
        parts.append(sliced(op, self, axis, end, END))
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _named(op: Builder, x: Tensor, other: Tensor, free: int | None = None) -> Tensor:
    """Give `x` the names of another tensor's sizes.

    Eager PyTorch has checked that the sizes are equal. The axis `free` may have another name.
    """
    if x.shape is None or other.shape is None:
        return x
    differ = any(one != two for axis, (one, two) in enumerate(zip(x.shape, other.shape, strict=True)) if axis != free)
    return expanded(op, x, other.shape, others=[other]) if differ else x


def _around(op: Builder, self: Tensor, src: Tensor, axis: int, start: Any, end: Any) -> tuple[Any, Any]:
    """Return the bounds of the parts before and behind a slice that `src` replaces.

    The part behind begins after `src`, not at `end`: an end of 0 may count from either side, and an end before the start
    makes an empty slice.
    """
    whole_sides = isinstance(start, int) and isinstance(end, int) and start <= end and start * end > 0
    if whole_sides or (isinstance(start, int) and start == 0) or (isinstance(end, int) and end >= END):
        return start, end
    first, length = _from_front(op, start, size_at(op, self, axis)), size_at(op, src, axis)
    return first, first + length if isinstance(first, int) and isinstance(length, int) else op.Add(first, length)


def _from_front(op: Builder, index: Any, size: int | Tensor) -> Any:
    """Count an index from the front; an index before the front becomes 0."""
    if isinstance(index, int) and index >= 0:
        return index
    if isinstance(index, int) and isinstance(size, int):
        return max(index + size, 0)
    counted = extreme(op, "Max", op.Add(op.constant(size, torch.int64), index), op.constant(0, torch.int64))
    return counted if isinstance(index, int) else op.Where(op.Less(index, 0), counted, index)


@table("slice_scatter")
def slice_scatter(op: Builder, self: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: Any) -> Tensor:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    axis, src = axis_of(op, self, dim), op.cast(src, self.dtype)
    step = op.static(step) if op.is_static(step) else step
    start, end = 0 if start is None else start, END if end is None else end
    length = src.shape[axis] if src.shape else None
    if isinstance(length, int) and length == 0:
        return self
    one = isinstance(step, int) and step == 1
    if one and self.shape is not None and length == self.shape[axis]:
        return _named(op, src, self)
    if one:
        made = _replaced(op, self, src, axis, *_around(op, self, src, axis, start, end))
        return _named(op, made, self, None if made is src else axis)
    size = size_at(op, self, axis)
    if isinstance(size, int) and op.is_static([start, end, step]):
        places: Tensor = op.constant(torch.arange(size)[op.static(start) : op.static(end) : step])
    else:
        places = sliced(op, arange_of(op, 0, size, 1, torch.int64), 0, start, end, step)
    return scatter_slices(op, self, axis, places, src)


@table("select_scatter")
def select_scatter(op: Builder, self: Tensor, src: Tensor, dim: int, index: Any) -> Tensor:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(op, self, dim)
    layer = unsqueezed(op, op.cast(src, self.dtype), [axis])
    size = size_at(op, self, axis)
    if isinstance(index, int):
        start = _from_front(op, index, size) if isinstance(size, int) else index
        return _replaced(op, self, layer, axis, start, END if start == -1 else start + 1)
    return _replaced(op, self, layer, axis, *_around(op, self, layer, axis, index, None))


@table("diagonal_scatter")
def diagonal_scatter(op: Builder, self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    one, other, rank = axis_of(op, self, dim1), axis_of(op, self, dim2), rank_of(op, self)
    order = [*(axis for axis in range(rank) if axis not in (one, other)), one, other]
    matrices = permuted(op, self, order)
    places = diagonal_places(op, size_at(op, self, one), size_at(op, self, other), offset)
    flat = op.Reshape(matrices, [0] * (rank - 2) + [-1])
    changed = scatter_slices(op, flat, rank - 2, places, op.cast(src, self.dtype))
    back = op.Reshape(changed, vector(op, [size_at(op, self, axis) for axis in order]))
    return permuted(op, back, [order.index(axis) for axis in range(rank)])


@table("as_strided_scatter")
def as_strided_scatter(op: Builder, self: Tensor, src: Tensor, size: list[Any], stride: list[Any], storage_offset: Any) -> Tensor:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""
    places = op.Reshape(strided_places(op, size, stride, storage_offset or 0), [-1])
    flat, values = op.Reshape(self, [-1]), op.Reshape(op.cast(src, self.dtype), [-1])
    back = [size_at(op, self, axis) for axis in range(rank_of(op, self))]
    return op.Reshape(scatter_slices(op, flat, 0, places, values), vector(op, back))


@table("fill.Scalar", "fill.Tensor")
def fill(op: Builder, self: Tensor, value: Any) -> Tensor:
    """fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return full_of(op, sizes_like(op, self), value, self.dtype)


@table("copy")
def copy(op: Builder, self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return expanded(op, op.cast(src, self.dtype), sizes_of(op) or (), others=[self])
