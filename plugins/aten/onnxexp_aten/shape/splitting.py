"""Split, chunk and unbind along one axis."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.shape.views_and_slices import select_slice
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of
from onnxexp_aten.support.view_nodes import END, sliced

table = SymbolicTable("aten")


def _parts(op: Builder, x: Tensor, axis: int, given: list[Any] | None = None) -> list[Tensor]:
    """Split `x` into the node's outputs.

    The sizes come from the captured program or from `given`.
    """
    count = len(op.node.outputs)
    if count == 1:
        return [x]
    lengths = _lengths(op, axis)
    if all(isinstance(length, int) for length in lengths) and isinstance(size_at(op, x, axis), int):
        return list(op.Split(x, lengths, axis=axis, outputs=count))
    if all(isinstance(length, int) for length in lengths[:-1]):
        return _cut(op, x, axis, list(itertools.accumulate(lengths[:-1])))
    if given is None:
        op.decline("the sizes of the parts must be known at export")
    return list(op.Split(x, op.constant(given, torch.int64), axis=axis, outputs=count))


def _lengths(op: Builder, axis: int) -> list[Any]:
    """Return the sizes of the parts in the captured program."""
    return [(sizes_of(op, index) or (None,) * (axis + 1))[axis] for index in range(len(op.node.outputs))]


def _cut(op: Builder, x: Tensor, axis: int, places: list[Any]) -> list[Tensor]:
    """Slice before, between and after these positions."""
    return [sliced(op, x, axis, start, end) for start, end in itertools.pairwise([0, *places, END])]


def _cut_each(op: Builder, x: Tensor, axis: int, step: Tensor) -> list[Tensor]:
    """Slice into parts of this length, and the rest."""
    return _cut(op, x, axis, [step if factor == 1 else op.Mul(step, factor) for factor in range(1, len(op.node.outputs))])


@table("split.Tensor", "unsafe_split.Tensor", "split_copy.Tensor")
def split(op: Builder, self: Tensor, split_size: Any, dim: int) -> list[Tensor]:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(op, self, dim)
    if isinstance(split_size, Tensor):
        return _cut_each(op, self, axis, split_size)
    return _parts(op, self, axis)


@table("split.sizes", "split_with_sizes", "unsafe_split_with_sizes", "split_with_sizes_copy", "split")
def split_with_sizes(op: Builder, self: Tensor, split_sizes: list[Any], dim: int) -> list[Tensor]:
    """split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return _parts(op, self, axis_of(op, self, dim), split_sizes)


@table("chunk", "unsafe_chunk")
def chunk(op: Builder, self: Tensor, chunks: int, dim: int) -> list[Tensor]:
    """chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    axis, count = axis_of(op, self, dim), len(op.node.outputs)
    size = size_at(op, self, axis)
    if isinstance(size, int) or count == 1:
        return _parts(op, self, axis)
    return _cut_each(op, self, axis, op.Div(op.Add(size, chunks - 1), chunks))


@table("tensor_split.sections", "tensor_split.indices")
def tensor_split(op: Builder, self: Tensor, sections: Any, dim: int) -> list[Tensor]:
    """tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]

    Other overloads take `indices`, a list of positions to cut at.
    """
    axis = axis_of(op, self, dim)
    size, lengths = size_at(op, self, axis), _lengths(op, axis)
    static = isinstance(size, int) and all(isinstance(length, int) for length in lengths)
    if len(lengths) == 1 or (static and sum(lengths) == size):  # parts overlap where the positions descend
        return _parts(op, self, axis)
    if isinstance(sections, list):
        return _cut(op, self, axis, sections)
    lengths = [op.Div(op.Add(size, sections - 1 - index), sections) for index in range(sections - 1)]
    return _cut(op, self, axis, list(itertools.accumulate(lengths, op.Add)))


@table("tensor_split.tensor_indices_or_sections")
def tensor_split_by(op: Builder, self: Tensor, tensor_indices_or_sections: Tensor, dim: int) -> list[Tensor]:
    """tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]"""
    given = tensor_indices_or_sections
    if given.rank == 0 or op.is_static(given):
        return tensor_split(op, self, op.static(given, "the number of parts"), dim)
    places = [op.Gather(op.cast(given, torch.int64), index, axis=0) for index in range(len(op.node.outputs) - 1)]
    return _cut(op, self, axis_of(op, self, dim), places)


@table("hsplit", "vsplit", "dsplit")
def hsplit(op: Builder, self: Tensor, sections: Any) -> list[Tensor]:
    """hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    axis = {"v": 0, "h": min(1, rank_of(op, self) - 1), "d": 2}[op.node.op.removeprefix("aten::")[0]]
    return tensor_split(op, self, sections, axis)


@table("unbind.int", "unbind_copy.int")
def unbind(op: Builder, self: Tensor, dim: int) -> list[Tensor]:
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(op, self, dim)
    return [select_slice(op, self, axis, index) for index in range(len(op.node.outputs))]
