"""Diagonals, diagonal matrices and views with strides (as_strided)."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.support.constant_of_shape import MAX_TABLE
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of, vector
from onnxexp_aten.support.view_nodes import permuted, unsqueezed

table = SymbolicTable("aten")


def diagonal_places(op: Builder, rows: Any, columns: Any, offset: int) -> Tensor:
    """Return the positions of a diagonal in a flattened matrix, int64[n]."""
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
    row_axis, column_axis, rank = axis_of(op, self, dim1), axis_of(op, self, dim2), rank_of(op, self)
    rows, columns = size_at(op, self, row_axis), size_at(op, self, column_axis)
    batch_axes = [axis for axis in range(rank) if axis not in (row_axis, column_axis)]
    matrices = permuted(op, self, [*batch_axes, row_axis, column_axis])
    flat = op.Reshape(matrices, vector(op, _flattened(op, matrices, rows, columns)))
    return op.Gather(flat, diagonal_places(op, rows, columns, offset), axis=rank - 2)


def _flattened(op: Builder, matrices: Tensor, rows: int | Tensor, columns: int | Tensor) -> list[Any]:
    """Return the target of a Reshape that joins the last two axes."""
    batch_rank = rank_of(op, matrices) - 2
    sizes = [size_at(op, matrices, axis) for axis in range(batch_rank)]
    if all(isinstance(size, int) and size for size in sizes) or op.opset < 14:  # a -1 has a value; without allowzero, 0 is a copy
        return [0] * batch_rank + [-1]
    joined = rows * columns if isinstance(rows, int) and isinstance(columns, int) else op.Mul(rows, columns)
    return [*sizes, joined]


@table("diag_embed")
def diag_embed(op: Builder, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    rank = rank_of(op, self)
    size = size_at(op, self, rank - 1)
    if self.dtype.is_complex:
        op.decline("the dtype must be real")
    offset = int(op.static(offset, "the offset"))
    pads = [0, offset] if offset > 0 else [-offset, 0]
    rows = op.torch_op("aten::constant_pad_nd", self, pads, 0)[0] if offset else self
    # ONNX Runtime's Where loses the sign of zeros in the second input
    matrices = select(op, _off_diagonal(op, size, offset), op.constant(0, self.dtype), unsqueezed(op, rows, [rank]))
    row_axis, column_axis = dim1 % (rank + 1), dim2 % (rank + 1)
    source = {row_axis: rank - 1, column_axis: rank}
    batch_axes = [axis for axis in range(rank + 1) if axis not in source]
    source |= dict(zip(batch_axes, range(rank - 1), strict=True))
    return permuted(op, matrices, [source[axis] for axis in range(rank + 1)])


def _off_diagonal(op: Builder, size: int | Tensor, offset: int) -> Tensor:
    """Return a square mask that is True outside a diagonal of `size` elements."""
    if isinstance(size, int):
        mask = torch.ones(size + abs(offset), size + abs(offset), dtype=torch.bool)
        return op.constant(~mask.triu(offset).tril(offset))
    columns = arange_of(op, 0, op.Add(size, abs(offset)), 1, torch.int64)
    distance = op.Sub(op.Add(unsqueezed(op, columns, [1]), offset), columns)
    return op.cast(distance, torch.bool)  # not Equal and Not: ONNX Runtime merges Not into Where


@table("diag")
def diag(op: Builder, self: Tensor, diagonal: int) -> Tensor:
    """diag(Tensor self, int diagonal=0) -> Tensor"""
    if rank_of(op, self) == 1:
        return diag_embed(op, self, diagonal, 0, 1)
    return op.torch_op("aten::diagonal", self, diagonal, 0, 1)[0]


@table("diagflat")
def diagflat(op: Builder, self: Tensor, offset: int) -> Tensor:
    """diagflat(Tensor self, int offset=0) -> Tensor"""
    flat = self if self.rank == 1 else op.Reshape(self, [-1])
    return diag_embed(op, flat, offset, 0, 1)


@table("as_strided", "as_strided_copy")
def as_strided(op: Builder, self: Tensor, size: list[Any], stride: list[Any], storage_offset: Any) -> Tensor:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    sizes, own = sizes_of(op), self.shape or ()
    contiguous: list[int | None] = [1]
    for length in reversed([*own[1:]]):
        inner = contiguous[0]
        contiguous.insert(0, inner * length if isinstance(length, int) and inner is not None else None)
    offset = storage_offset or 0
    if sizes == own and offset == 0 and list(stride) == contiguous[: len(own)]:
        return self
    flat = self if len(own) == 1 else op.Reshape(self, [-1])
    places = strided_places(op, size, stride, offset)
    lengths = [length for length in own if isinstance(length, int)]
    if places.const is not None and len(lengths) == len(own):
        elements = torch.arange(math.prod(lengths))
        if torch.equal(places.const.reshape(-1), elements):
            return op.Reshape(flat, list(places.const.shape))
    return op.Gather(flat, places, axis=0)


def strided_places(op: Builder, size: list[Any], stride: list[Any], offset: Any) -> Tensor:
    """Return memory positions of a strided view's elements, int64[*size]."""
    if all(isinstance(each, int) for each in (*size, *stride, offset)) and math.prod(size) <= MAX_TABLE:
        known = torch.tensor(offset)
        for count, step in zip(size, stride, strict=True):
            known = known.unsqueeze(-1) + torch.arange(count) * step
        return op.constant(known)
    places = op.constant(offset, torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        steps = op.Mul(arange_of(op, 0, count, 1, torch.int64), step)
        places = op.Add(places, unsqueezed(op, steps, range(1, len(size) - axis)))
    return places
