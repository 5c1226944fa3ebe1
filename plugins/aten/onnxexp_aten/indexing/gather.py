"""Read by index: gather, index_select, embedding and self[...]."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import clamp, remainder, select
from onnxexp_aten.support.kernel_dtypes import compress, has_operator
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector, with_shape
from onnxexp_aten.support.view_nodes import expanded, permuted, squeezed, unsqueezed

table = SymbolicTable("aten")


def counted_from_front(op: Builder, index: Tensor, size: Any) -> Tensor:
    """Count negative indices from the front."""
    if index.const is not None and isinstance(size, int):
        return op.constant(torch.where(index.const < 0, index.const + size, index.const).to(torch.int64))
    if index.const is not None and bool((index.const >= 0).all()):
        return index
    wide = op.cast(index, torch.int64)
    return op.Where(op.Less(wide, 0), op.Add(wide, size), wide)


@table("embedding")
def embedding(op: Builder, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Tensor:
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, ...) -> Tensor"""
    return op.Gather(weight, indices, axis=0)


@table("index_select")
def index_select(op: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if self.rank == 0:
        return op.Reshape(self, []) if index.rank == 1 else self
    return op.Gather(self, unsqueezed(op, index, [0]) if index.rank == 0 else index, axis=axis_of(op, self, dim))


@table("gather")
def gather(op: Builder, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if self.rank == 0 or index.rank == 0:
        flat = self if self.rank else unsqueezed(op, self, [0])
        return op.Gather(flat, index, axis=0)
    axis = axis_of(op, self, dim)
    if has_operator(op, "GatherElements"):
        return op.GatherElements(self, index, axis=axis)
    strides = strides_of(op, self, range(rank_of(op, self)))
    place_along = op.cast(index, torch.int64)
    place_along = op.Where(op.Less(place_along, 0), op.Add(place_along, size_at(op, self, axis)), place_along)
    places = op.Mul(place_along, strides[axis])
    for other in range(rank_of(op, self)):
        if other != axis:
            counted = op.Mul(arange_of(op, 0, size_at(op, index, other), 1, torch.int64), strides[other])
            places = op.Add(places, unsqueezed(op, counted, [place for place in range(rank_of(op, index)) if place != other]))
    return op.Gather(op.Reshape(self, [-1]), places, axis=0)


def strides_of(op: Builder, x: Tensor, axes: Sequence[int]) -> list[Tensor]:
    """Compute the strides of these axes in a contiguous tensor of them alone."""
    strides = [op.constant(1, torch.int64)]
    for axis in list(axes)[:0:-1]:
        strides.insert(0, op.Mul(strides[0], size_at(op, x, axis)))
    return strides


@table("take")
def take(op: Builder, self: Tensor, index: Tensor) -> Tensor:
    """take(Tensor self, Tensor index) -> Tensor"""
    flat = self if self.rank == 1 else op.Reshape(self, [-1])
    return op.Gather(flat, _allowed(op, flat, 0, index), axis=0)


@table("take_along_dim")
def take_along_dim(op: Builder, self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    """take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor

    With `dim`, an index that is out of bounds counts from the other end.
    """
    if dim is None:
        flat = [tensor if tensor.rank == 1 else op.Reshape(tensor, [-1]) for tensor in (self, indices)]
        return gather(op, flat[0], 0, _allowed(op, flat[0], 0, flat[1]), False)
    axis = axis_of(op, self, dim)
    sizes = list(common_sizes(op, [self, indices]))
    along = [list(sizes), list(sizes)]
    along[0][axis], along[1][axis] = (self.shape or ())[axis], (indices.shape or ())[axis]
    x, place = (expanded(op, tensor, size, others=[self, indices]) for tensor, size in zip((self, indices), along, strict=True))
    size = size_at(op, x, axis)
    wrapped = remainder(op, op.cast(place, torch.int64), max(size, 1) if isinstance(size, int) else size)
    return gather(op, x, axis, wrapped, False)


# Indexing with tensors


def indices_and_axes(op: Builder, self: Tensor, indices: Sequence[Any]) -> tuple[list[Tensor], list[int]]:
    """Return integer index tensors and the axis of each.

    A mask becomes one index tensor for each of its axes.
    """
    tensors: list[Tensor] = []
    axes: list[int] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif index.dtype in (torch.bool, torch.uint8):
            places = op.NonZero(op.cast(index, torch.bool))
            for row in range(rank_of(op, index)):
                tensors.append(op.Gather(places, row, axis=0))
                axes.append(axis + row)
            axis += rank_of(op, index)
        else:
            tensors.append(index)
            axes.append(axis)
            axis += 1
    return tensors, axes


@table("index.Tensor", "index.Tensor_hacked_twin", "_unsafe_index.Tensor", "_unsafe_index.Tensor_hacked_twin")
def index(op: Builder, self: Tensor, indices: list[Tensor | None]) -> Tensor:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    given = [one for one in indices if one is not None]
    if len(given) == 1 and given[0].dtype in (torch.bool, torch.uint8) and given[0].rank:
        return masked(op, self, op.cast(given[0], torch.bool), indices.index(given[0]))
    tensors, axes = indices_and_axes(op, self, indices)
    if not tensors:
        return self
    if len(tensors) == 1:
        return op.Gather(self, _allowed(op, self, axes[0], tensors[0]), axis=axes[0])
    return _outer(op, self, tensors, axes) or _pointwise(op, self, tensors, axes)


def _allowed(op: Builder, self: Tensor, axis: int, index: Tensor) -> Tensor:
    """Convert an index tensor for Gather.

    Gather takes negative indices from opset 11 on, which the schemas state in prose only.
    """
    index = index if index.dtype in (torch.int32, torch.int64) else op.cast(index, torch.int64)
    return index if op.opset >= 11 else counted_from_front(op, index, size_at(op, self, axis))


@table("_unsafe_masked_index")
def unsafe_masked_index(op: Builder, self: Tensor, mask: Tensor, indices: list[Tensor | None], fill: Any) -> Tensor:
    """_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor"""
    return select(op, mask, index(op, self, clamped_indices(op, self, indices)), op.cast(fill, self.dtype))


def clamped_indices(op: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Clamp the indices into bounds; the caller masks the results of others."""
    if x.dtype.is_complex or 0 in (x.shape or ()):
        op.decline("the dtype is complex or the tensor empty")
    sizes = (None if each is None else op.constant(size_at(op, x, axis), torch.int64) for axis, each in enumerate(indices))
    return [
        None if each is None or size is None else clamp(op, each, op.Neg(size), op.Sub(size, 1))
        for each, size in zip(indices, sizes, strict=True)
    ]


def masked(op: Builder, self: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Select by a mask; the masked axes become one axis."""
    count, shape = rank_of(op, mask), self.shape or ()
    if count > 1:
        rest = [size for place, size in enumerate(shape) if not axis <= place < axis + count]
        dynamic = [size for size in rest if isinstance(size, SymbolicSize)]
        if len(dynamic) > axis:  # Reshape can copy leading sizes and infer one, no more
            places = op.Transpose(op.NonZero(mask), perm=[1, 0])
            front = permuted(op, self, [*range(axis, axis + count), *range(axis), *range(axis + count, len(shape))])
            found = op.GatherND(front, places)
            return permuted(op, found, [*range(1, axis + 1), 0, *range(axis + 1, axis + 1 + len(shape) - axis - count)])
        self = op.Reshape(self, [0] * axis + [-1] + list(shape[axis + count :]))
        mask = op.Reshape(mask, [-1])
    return compress(op, self, mask, axis=axis)


@table("masked_select")
def masked_select(op: Builder, self: Tensor, mask: Tensor) -> Tensor:
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    if self.shape is None or self.shape != mask.shape:
        self, mask = _broadcast(op, [self, mask])
    if self.rank != 1:
        self, mask = op.Reshape(self, [-1]), op.Reshape(mask, [-1])
    return compress(op, self, mask, axis=0)


def _broadcast(op: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Broadcast tensors to their common shape."""
    sizes = common_sizes(op, tensors)
    return [expanded(op, tensor, sizes, others=tensors) for tensor in tensors]


def common_sizes(op: Builder, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return the shape that tensors broadcast to."""
    rank = max(rank_of(op, tensor) for tensor in tensors)
    shapes = [(1,) * (rank - rank_of(op, tensor)) + tuple(tensor.shape or ()) for tensor in tensors]
    sizes: list[Any] = []
    for column in zip(*shapes, strict=True):
        grown = [size for size in column if size != 1]
        sizes.append(next((size for size in grown if isinstance(size, int)), grown[0] if grown else 1))
    return tuple(sizes)


# Several index tensors


def _outer(op: Builder, self: Tensor, tensors: list[Tensor], axes: list[int]) -> Tensor | None:
    """Index with a chain of Gathers, such as ``x[rows[:, None], columns]``.

    Returns None unless the axes are consecutive and each index tensor has axes of the result to itself.
    """
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return None
    shapes = [tensor.shape for tensor in tensors]
    rank = max(len(shape or ()) for shape in shapes)
    bounds = _own_axes([(1,) * (rank - len(shape or ())) + tuple(shape or ()) for shape in shapes])
    if bounds is None:
        return None
    result, done = self, 0
    for tensor, axis, (first, last) in zip(tensors, axes, bounds, strict=True):
        lead = rank - rank_of(op, tensor)
        tensor = unsqueezed(op, tensor, range(lead))
        own = squeezed(op, tensor, [place for place in range(rank) if not first <= place < last])
        result = _gathered(op, result, own, axis + done)
        done += last - first - 1
    return result


def _own_axes(shapes: Sequence[tuple[Any, ...]]) -> list[tuple[int, int]] | None:
    """Find ranges of axes outside which each shape is 1.

    Returns None unless the ranges follow one another.
    """
    bounds, start = [], 0
    for number, shape in enumerate(shapes):
        grown = [axis for axis, size in enumerate(shape) if size != 1]
        if any(axis < start for axis in grown):
            return None
        end = len(shape) if number == len(shapes) - 1 else max([start, *(axis + 1 for axis in grown)])
        following = [axis for other in shapes[number + 1 :] for axis, size in enumerate(other) if size != 1]
        if following and min(following) < end:
            return None
        if number < len(shapes) - 1 and following:
            end = max(end, min(following))
        bounds.append((start, end))
        start = end
    return bounds


def _gathered(op: Builder, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Gather along an axis, unless the index is a constant 0, 1, … n - 1."""
    shape = index.shape or ()
    whole = x.shape is not None and [size for size in shape if size != 1] == [x.shape[axis]]
    if whole and index.const is not None and torch.equal(index.const.reshape(-1).long(), torch.arange(index.const.numel())):
        return unsqueezed(op, x, [axis + place for place, size in enumerate(shape) if size == 1])
    return op.Gather(x, _allowed(op, x, axis, index), axis=axis)


def _pointwise(op: Builder, self: Tensor, tensors: list[Tensor], axes: list[int]) -> Tensor:
    """Index with GatherND, or with Gather along flattened axes.

    The indexed axes move to the front and, if they are consecutive, back.
    """
    rest = [axis for axis in range(rank_of(op, self)) if axis not in axes]
    common = common_sizes(op, tensors)
    front = permuted(op, self, [*axes, *rest])
    if has_operator(op, "GatherND"):
        found = op.GatherND(front, stacked_indices(op, tensors, common))
    else:
        found = op.Gather(flattened(op, front, len(axes)), flat_places(op, front, tensors), axis=0)
    before = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    width = len(common)
    order = [*range(width, width + before), *range(width), *range(width + before, width + len(rest))]
    return permuted(op, found, order)


def flattened(op: Builder, front: Tensor, count: int) -> Tensor:
    """Flatten the first `count` axes."""
    sizes = front.shape
    if count == 1 or sizes is None:
        return front
    made = op.Reshape(front, vector(op, [-1, *(size_at(op, front, axis) for axis in range(count, len(sizes)))]))
    return with_shape(made, [math.prod(sizes[:count]), *sizes[count:]])


def flat_places(op: Builder, front: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Convert indices of several axes to indices of these axes flattened.

    Opsets without GatherND and ScatterND need this form.
    """
    strides = strides_of(op, front, range(len(tensors)))
    places: Tensor | None = None
    for axis, (tensor, stride) in enumerate(zip(tensors, strides, strict=True)):
        place = op.Mul(counted_from_front(op, op.cast(tensor, torch.int64), size_at(op, front, axis)), stride)
        places = place if places is None else op.Add(places, place)
    assert places is not None
    return places


def stacked_indices(op: Builder, tensors: Sequence[Tensor], common: Sequence[Any]) -> Tensor:
    """Stack index tensors as GatherND and ScatterND expect them.

    Returns int64[*common, len(tensors)].
    """
    wide = [op.cast(tensor, torch.int64) for tensor in tensors]
    if _sizes_differ(wide, len(common)):
        shape = op.Shape(functools.reduce(op.Add, wide))
        wide = [op.Expand(tensor, shape) for tensor in wide]
    else:
        wide = [expanded(op, tensor, common, others=wide) for tensor in wide]
    columns = [unsqueezed(op, tensor, [len(common)]) for tensor in wide]
    return columns[0] if len(columns) == 1 else op.Concat(*columns, axis=-1)


def _sizes_differ(tensors: Sequence[Tensor], rank: int) -> bool:
    """Return whether tensors may differ in a size that is known at run time only.

    Any of these sizes may be 1. Examples are the numbers of elements that two masks select.
    """
    shapes = [(1,) * (rank - len(tensor.shape or ())) + tuple(tensor.shape or ()) for tensor in tensors]
    return any(len({size for size in column if not isinstance(size, int)}) > 1 for column in zip(*shapes, strict=True))
