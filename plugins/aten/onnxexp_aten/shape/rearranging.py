"""Elements in other places: windows, rotations, diagonals, pixels, repetitions of each element."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.new_tensors import arange_of
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.reduction.reductions import sum_
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.composed_views import (
    END,
    permuted,
    reshaped,
    size_at,
    sizes_of,
    sliced,
    squeezed,
    swapped,
    unsqueezed,
    vector,
)

__all__ = ["diagonal_places", "roll", "strided_places", "table", "window_starts"]

table = SymbolicTable("aten")

_TABLE = 4096
"""Indices up to which a table of them is the cheapest way to repeat or to pick elements."""


@table("flip")
def flip(op: Builder, self: Tensor, dims: list[int]) -> Tensor:
    """flip(Tensor self, int[] dims) -> Tensor"""
    return reversed_along(op, self, [axis_of(op, self, dim) for dim in dims] if self.rank else [])


@table("fliplr", "flipud")
def fliplr(op: Builder, self: Tensor) -> Tensor:
    """fliplr(Tensor self) -> Tensor"""
    return reversed_along(op, self, [1 if op.node.op == "aten::fliplr" else 0])


def reversed_along(op: Builder, x: Tensor, axes: list[int]) -> Tensor:
    """The axes the other way round: Slice with negative steps, which it has from opset 10 on, before that a table of indices."""
    if not axes:
        return x
    if op.opset >= 10:
        return op.Slice(x, [-1] * len(axes), [-END] * len(axes), axes=axes, steps=[-1] * len(axes))
    for axis in axes:
        size = size_at(op, x, axis)
        x = op.Gather(x, op.Sub(op.Sub(size, 1), arange_of(op, 0, size, 1, torch.int64)), axis=axis)
    return x


@table("rot90")
def rot90(op: Builder, self: Tensor, k: int, dims: list[int]) -> Tensor:
    """rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    one, other = (axis_of(op, self, dim) for dim in dims)
    turned = {0: [], 1: [other], 2: [one, other], 3: [one]}[k % 4]
    result = reversed_along(op, self, turned)
    return swapped(op, result, one, other) if k % 2 else result


@table("roll")
def roll(op: Builder, self: Tensor, shifts: list[Any], dims: list[int]) -> Tensor:
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    if not dims:
        flat = op.Reshape(self, [-1])
        return reshaped(op, _rolled(op, flat, 0, shifts[0]), self.shape or ())
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        result = _rolled(op, result, axis_of(op, self, dim), shift)
    return result


def _rolled(op: Builder, x: Tensor, axis: int, shift: Any) -> Tensor:
    size = size_at(op, x, axis)
    if isinstance(size, int) and isinstance(shift, int):
        shift = shift % max(size, 1)
        return x if shift == 0 else op.Concat(sliced(op, x, axis, -shift, END), sliced(op, x, axis, 0, -shift), axis=axis)
    if isinstance(shift, int) and abs(shift) == 1:
        return op.Concat(sliced(op, x, axis, -shift, END), sliced(op, x, axis, 0, -shift), axis=axis)
    start = op.Sub(size, op.Mod(shift, size))
    return op.Concat(sliced(op, x, axis, start, END), sliced(op, x, axis, 0, start), axis=axis)


@table("unfold", "unfold_copy")
def unfold(op: Builder, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    if self.rank == 0:
        return op.Reshape(self, [1])
    axis = axis_of(op, self, dimension)
    starts = unsqueezed(op, window_starts(op, self, axis, size, step), [1])
    windows = op.Gather(self, op.Add(starts, list(range(size))), axis=axis)
    rank = rank_of(op, self)
    return permuted(op, windows, [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])


def window_starts(op: Builder, x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Where the windows of this size begin that fit into an axis."""
    length = size_at(op, x, axis)
    end = length - size + 1 if isinstance(length, int) else op.Sub(length, size - 1)
    return arange_of(op, 0, end, step, torch.int64)


# Pixels


@table("pixel_shuffle")
def pixel_shuffle(op: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    if rank_of(op, self) < 5 and self.dtype.is_floating_point and op.opset >= 11:  # from there on DepthToSpace has modes
        batch = unsqueezed(op, self, range(4 - rank_of(op, self)))
        shuffled = op.DepthToSpace(batch, blocksize=upscale_factor, mode="CRD")
        return squeezed(op, shuffled, range(4 - rank_of(op, self)))
    channels, height, width = _pixels(op, self)
    fewer = _over(op, channels, upscale_factor**2)
    flat = op.Reshape(self, vector(op, [-1, fewer, upscale_factor, upscale_factor, height, width]))
    spread = op.Transpose(flat, perm=[0, 1, 4, 2, 5, 3])
    taller, wider = (_times(op, size, upscale_factor) for size in (height, width))
    return op.Reshape(spread, vector(op, [*_lead(op, self), fewer, taller, wider]))


@table("pixel_unshuffle")
def pixel_unshuffle(op: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    channels, height, width = _pixels(op, self)
    if self.rank == 4 and channels == 1 and self.dtype.is_floating_point:
        return op.SpaceToDepth(self, blocksize=downscale_factor)
    height, width = (_over(op, size, downscale_factor) for size in (height, width))
    flat = op.Reshape(self, vector(op, [-1, channels, height, downscale_factor, width, downscale_factor]))
    spread = op.Transpose(flat, perm=[0, 1, 3, 5, 2, 4])
    return op.Reshape(spread, vector(op, [*_lead(op, self), _times(op, channels, downscale_factor**2), height, width]))


def _lead(op: Builder, x: Tensor) -> list[Any]:
    return [size_at(op, x, axis) for axis in range(rank_of(op, x) - 3)]


def _times(op: Builder, size: Any, factor: int) -> Any:
    return size * factor if isinstance(size, int) else op.Mul(size, factor)


def _over(op: Builder, size: Any, factor: int) -> Any:
    return size // factor if isinstance(size, int) else op.Div(size, factor)


def _pixels(op: Builder, x: Tensor) -> list[Any]:
    """Channels, height and width."""
    return [size_at(op, x, axis) for axis in (-3, -2, -1)]


@table("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(op: Builder, self: Tensor, groups: Any) -> Tensor:
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    groups = op.static(groups, "groups")
    places = arange_of(op, 0, size_at(op, self, 1), 1, torch.int64)
    order = op.Reshape(op.Transpose(op.Reshape(places, [groups, -1]), perm=[1, 0]), [-1])
    return op.Gather(self, order, axis=1)


# Diagonals


def diagonal_places(op: Builder, rows: Any, columns: Any, offset: int) -> Tensor:
    """int64[n]: where the diagonal's elements are in a flattened matrix."""
    if isinstance(rows, int) and isinstance(columns, int):
        return op.constant(torch.arange(rows * columns).view(rows, columns).diagonal(offset).contiguous())
    rows, columns = op.constant(rows, torch.int64), op.constant(columns, torch.int64)
    height = rows if offset >= 0 else op.Add(rows, offset)
    width = columns if offset <= 0 else op.Sub(columns, offset)
    count = op.Where(op.Less(height, width), height, width)
    first = op.constant(offset, torch.int64) if offset >= 0 else op.Mul(columns, -offset)
    places = op.Mul(arange_of(op, 0, count, 1, torch.int64), op.Add(columns, 1))
    return places if offset == 0 else op.Add(places, first)


@table("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(op: Builder, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    one, other, rank = axis_of(op, self, dim1), axis_of(op, self, dim2), rank_of(op, self)
    rows, columns = size_at(op, self, one), size_at(op, self, other)
    matrices = permuted(op, self, [*(axis for axis in range(rank) if axis not in (one, other)), one, other])
    flat = op.Reshape(matrices, [0] * (rank - 2) + [-1])
    return op.Gather(flat, diagonal_places(op, rows, columns, offset), axis=rank - 2)


@table("trace")
def trace(op: Builder, self: Tensor) -> Tensor:
    """trace(Tensor self) -> Tensor"""
    return sum_(op, diagonal(op, self, 0, 0, 1), None)


@table("diag_embed")
def diag_embed(op: Builder, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    rank = rank_of(op, self)
    size = size_at(op, self, rank - 1)
    if isinstance(size, Tensor) or self.dtype.is_complex:
        op.decline("a size that only the run time knows, or complex numbers")
    pads = [0, offset] if offset > 0 else [-offset, 0]
    rows = op.torch_op("aten::constant_pad_nd", self, pads, 0)[0] if offset else self
    mask = torch.ones(size + abs(offset), size + abs(offset), dtype=torch.bool)
    kept = op.constant(mask.triu(offset).tril(offset))
    made = select(op, kept, unsqueezed(op, rows, [rank]), op.constant(0, self.dtype))
    one, other = dim1 % (rank + 1), dim2 % (rank + 1)
    places = dict(zip([axis for axis in range(rank + 1) if axis not in (one, other)], range(rank - 1), strict=True))
    return permuted(op, made, [{**places, one: rank - 1, other: rank}[axis] for axis in range(rank + 1)])


@table("diag")
def diag(op: Builder, self: Tensor, diagonal: int) -> Tensor:
    """diag(Tensor self, int diagonal=0) -> Tensor"""
    if rank_of(op, self) == 1:
        return diag_embed(op, self, diagonal, 0, 1)  # type: ignore[no-any-return]
    return op.torch_op("aten::diagonal", self, diagonal, 0, 1)[0]  # type: ignore[no-any-return]


@table("diagflat")
def diagflat(op: Builder, self: Tensor, offset: int) -> Tensor:
    """diagflat(Tensor self, int offset=0) -> Tensor"""
    flat = self if self.rank == 1 else op.Reshape(self, [-1])
    return diag_embed(op, flat, offset, 0, 1)  # type: ignore[no-any-return]


@table("combinations")
def combinations(op: Builder, self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor"""
    size = size_at(op, self, 0)
    if isinstance(size, Tensor):
        op.decline("a size that only the run time knows")
    places = torch.combinations(torch.arange(size), r, with_replacement)
    return op.Gather(self, op.constant(places), axis=0)  # type: ignore[no-any-return]


@table("as_strided", "as_strided_copy")
def as_strided(op: Builder, self: Tensor, size: list[Any], stride: list[Any], storage_offset: Any) -> Tensor:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    sizes, own = sizes_of(op), self.shape or ()
    contiguous = [1]
    for length in reversed([*own[1:]]):
        contiguous.insert(0, contiguous[0] * length if isinstance(length, int) and isinstance(contiguous[0], int) else None)
    offset = storage_offset or 0
    if sizes == own and offset == 0 and list(stride) == contiguous[: len(own)]:
        return self
    flat = self if len(own) == 1 else op.Reshape(self, [-1])
    places = strided_places(op, size, stride, offset)
    if places.const is not None and all(isinstance(length, int) for length in own):
        elements = torch.arange(torch.Size(own).numel())
        if torch.equal(places.const.reshape(-1), elements):
            return op.Reshape(flat, list(places.const.shape))
    return op.Gather(flat, places, axis=0)


def strided_places(op: Builder, size: list[Any], stride: list[Any], offset: Any) -> Tensor:
    """int64[*size]: where in memory the elements of a strided view are."""
    if all(isinstance(each, int) for each in (*size, *stride, offset)) and math.prod(size) <= _TABLE:
        known = torch.tensor(offset)
        for count, step in zip(size, stride, strict=True):
            known = known.unsqueeze(-1) + torch.arange(count) * step
        return op.constant(known)
    places = op.constant(offset, torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        steps = op.Mul(arange_of(op, 0, count, 1, torch.int64), step)
        places = op.Add(places, unsqueezed(op, steps, range(1, len(size) - axis)))
    return places


# Each element several times


@table("repeat_interleave.self_int")
def repeat_interleave(op: Builder, self: Tensor, repeats: Any, dim: int | None, output_size: Any) -> Tensor:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    x = self if dim is not None else op.Reshape(self, [-1])
    axis = axis_of(op, x, dim or 0)
    length = size_at(op, x, axis)
    if isinstance(repeats, int) and isinstance(length, int) and length * repeats <= _TABLE:
        return op.Gather(x, op.constant(torch.arange(length).repeat_interleave(repeats)), axis=axis)
    rank = rank_of(op, x)
    copies = op.Expand(unsqueezed(op, x, [axis + 1]), vector(op, [1] * (axis + 1) + [repeats] + [1] * (rank - axis - 1)))
    sizes = list(sizes_of(op) or x.shape or ())
    return (
        op.Reshape(copies, [0] * axis + [-1] + sizes[axis + 1 :]) if _constant_tail(sizes, axis) else reshaped(op, copies, sizes)
    )


def _constant_tail(sizes: list[Any], axis: int) -> bool:
    return all(isinstance(size, int) for size in sizes[axis + 1 :])


@table("repeat_interleave.Tensor")
def repeat_interleave_places(op: Builder, repeats: Tensor, output_size: Any) -> Tensor:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    return op.cast(_sources(op, repeats), repeats.dtype)


@table("repeat_interleave.self_Tensor")
def repeat_interleave_each(op: Builder, self: Tensor, repeats: Tensor, dim: int | None, output_size: Any) -> Tensor:
    """repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    x = self if dim is not None else op.Reshape(self, [-1])
    axis = axis_of(op, x, dim or 0)
    if repeats.rank == 0 or (repeats.shape == (1,) and x.shape is not None and x.shape[axis] != 1):
        repeats = op.Expand(repeats, vector(op, [size_at(op, x, axis)]))
    return op.Gather(x, _sources(op, repeats), axis=axis)


def _sources(op: Builder, repeats: Tensor) -> Tensor:
    """int64[n]: for each element of the result the one that it repeats."""
    ends = op.CumSum(op.cast(repeats, torch.int64), 0)
    total = op.ReduceSum(op.cast(repeats, torch.int64), axes=[0], keepdims=0)
    places = unsqueezed(op, arange_of(op, 0, total, 1, torch.int64), [1])
    passed = op.Not(op.Less(places, ends))
    return op.ReduceSum(op.cast(passed, torch.int64), axes=[1], keepdims=0)
