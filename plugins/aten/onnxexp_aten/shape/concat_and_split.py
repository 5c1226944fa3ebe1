"""Concatenation, stacking and grids; split, chunk and unbind along one axis."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.shape.padding import padded
from onnxexp_aten.shape.views_and_slices import select_slice
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of
from onnxexp_aten.support.type_promotion import promote
from onnxexp_aten.support.view_nodes import END, expanded, reshaped, sliced, unsqueezed

table = SymbolicTable("aten")


def joined(op: Builder, tensors: list[Tensor], dim: int) -> Tensor:
    """Concatenate in the promoted dtype; drop tensors of shape (0,), as torch does."""
    everything = promote(op, *tensors) if len({tensor.dtype for tensor in tensors}) > 1 else tensors
    kept = [tensor for tensor in everything if tensor.shape != (0,)] or everything[:1]
    axis = dim % max(rank_of(op, kept[0]), 1)
    kept = [tensor for tensor in kept if tensor.shape is None or tensor.shape[axis] != 0] or kept[:1]
    return kept[0] if len(kept) == 1 else op.Concat(*kept, axis=axis)


@table("cat", "concat", "concatenate")
def cat(op: Builder, tensors: list[Tensor], dim: int) -> Tensor:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return joined(op, tensors, dim)


@table("stack")
def stack(op: Builder, tensors: list[Tensor], dim: int) -> Tensor:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = dim % (rank_of(op, tensors[0]) + 1)
    return joined(op, [unsqueezed(op, tensor, [axis]) for tensor in tensors], axis)


def _raised(op: Builder, tensors: list[Tensor], rank: int) -> list[Tensor]:
    return [unsqueezed(op, tensor, range(rank - rank_of(op, tensor))) for tensor in tensors]


@table("hstack")
def hstack(op: Builder, tensors: list[Tensor]) -> Tensor:
    """hstack(Tensor[] tensors) -> Tensor"""
    tensors = _raised(op, tensors, 1)
    return joined(op, tensors, 0 if tensors[0].rank == 1 else 1)


@table("vstack", "row_stack")
def vstack(op: Builder, tensors: list[Tensor]) -> Tensor:
    """vstack(Tensor[] tensors) -> Tensor"""
    return joined(op, _raised(op, tensors, 2), 0)


@table("dstack")
def dstack(op: Builder, tensors: list[Tensor]) -> Tensor:
    """dstack(Tensor[] tensors) -> Tensor"""
    flat = [
        unsqueezed(op, tensor, [rank_of(op, tensor)] if rank_of(op, tensor) == 2 else []) for tensor in _raised(op, tensors, 2)
    ]
    return joined(op, flat, 2)


@table("column_stack")
def column_stack(op: Builder, tensors: list[Tensor]) -> Tensor:
    """column_stack(Tensor[] tensors) -> Tensor"""
    return joined(op, [unsqueezed(op, one, [1]) if one.rank == 1 else one for one in _raised(op, tensors, 1)], 1)


@table("block_diag")
def block_diag(op: Builder, tensors: list[Tensor]) -> Tensor:
    """block_diag(Tensor[] tensors) -> Tensor"""
    blocks = _raised(op, promote(op, *tensors), 2)
    widths = [width for width in (size_at(op, block, 1) for block in blocks) if isinstance(width, int)]
    if len(widths) != len(blocks):
        op.decline("the widths must be known at export")
    ends = list(itertools.accumulate(widths))
    rows = [padded(op, block, [end - width, ends[-1] - end]) for block, width, end in zip(blocks, widths, ends, strict=True)]
    return joined(op, rows, 0)


@table("pad_sequence")
def pad_sequence(op: Builder, sequences: list[Tensor], batch_first: bool, padding_value: float, padding_side: str) -> Tensor:
    """pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side="right") -> Tensor"""
    first, *others = sequences
    everything = [first, *(op.cast(other, first.dtype) for other in others)]
    sizes = [size_at(op, sequence, 0) for sequence in everything]
    longest = _longest(op, sizes)
    unpadded = [(0, 0)] * (rank_of(op, first) - 1)
    rows = []
    for sequence, size in zip(everything, sizes, strict=True):
        missing = longest - size if isinstance(longest, int) and isinstance(size, int) else op.Sub(longest, size)
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        rows.append(padded(op, sequence, list(itertools.chain(*unpadded, ends)), value=padding_value))
    axis = 0 if batch_first else 1
    return joined(op, [unsqueezed(op, row, [axis]) for row in rows], axis)


def _longest(op: Builder, sizes: list[Any]) -> Any:
    """Return the largest size, static if each is."""
    if all(isinstance(size, int) for size in sizes):
        return max(sizes)
    return functools.reduce(lambda one, other: extreme(op, "Max", one, other), (op.constant(size, torch.int64) for size in sizes))


@table("meshgrid")
def meshgrid(op: Builder, tensors: list[Tensor], indexing: str = "ij") -> list[Tensor]:
    """meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    places = list(range(len(tensors)))
    if indexing == "xy":
        places[:2] = places[1::-1]
    grids = []
    for tensor, place in zip(tensors, places, strict=True):
        flat = reshaped(op, tensor, [1]) if tensor.rank == 0 else tensor
        around = [axis for axis in range(len(tensors)) if axis != place]
        grids.append(expanded(op, unsqueezed(op, flat, around), sizes_of(op) or (), others=tensors))
    return grids


@table("cartesian_prod")
def cartesian_prod(op: Builder, tensors: list[Tensor]) -> Tensor:
    """cartesian_prod(Tensor[] tensors) -> Tensor"""
    if len(tensors) == 1:
        return tensors[0]
    sizes: list[Any] = [tensor.shape[0] if tensor.shape else 1 for tensor in tensors]
    flat = []
    for place, tensor in enumerate(tensors):
        around = [axis for axis in range(len(tensors)) if axis != place]
        grid = expanded(op, unsqueezed(op, tensor, around), sizes, others=tensors)
        flat.append(op.Reshape(grid, [-1, 1]))
    return joined(op, flat, 1)


@table("combinations")
def combinations(op: Builder, self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor"""
    size = size_at(op, self, 0)
    if isinstance(size, Tensor):
        op.decline("the size must be known at export")
    places = torch.combinations(torch.arange(size), r, with_replacement)
    return op.Gather(self, op.constant(places), axis=0)


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
