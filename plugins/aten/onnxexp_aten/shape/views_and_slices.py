"""Views: reshape, permute, expand, slice, select; and sizes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of, vector, with_shape
from onnxexp_aten.support.view_nodes import END, expanded, permuted, reshaped, sliced, squeezed, swapped, unsqueezed

table = SymbolicTable("aten")


# Other sizes


@table("view", "reshape", "_unsafe_view", "view_copy")
def reshape(op: Builder, self: Tensor, size: list[Any]) -> Tensor:
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    sizes = sizes_of(op)
    if sizes is None or self.shape is None:
        return op.Reshape(self, vector(op, size))
    return reshaped(op, self, sizes, size)


@table("_reshape_alias", "_reshape_alias_copy")
def reshape_alias(op: Builder, self: Tensor, size: list[Any], stride: list[Any]) -> Tensor:
    """_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"""
    return reshape(op, self, size)


@table("view.dtype", "view_copy.dtype")
def view_dtype(op: Builder, self: Tensor, dtype: torch.dtype) -> Tensor:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    if self.dtype == dtype:
        return self
    if self.dtype.itemsize != dtype.itemsize:
        op.decline("the dtypes differ in width")
    return op.BitCast(self, to=dtype)


@table("reshape_as", "view_as")
def reshape_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    sizes = sizes_of(op)
    if sizes is None or self.shape is None or sum(isinstance(size, SymbolicSize) for size in sizes) > 1:
        return op.Reshape(self, op.Shape(other))
    return reshaped(op, self, sizes)


@table("_reshape_from_tensor")
def reshape_from_tensor(op: Builder, self: Tensor, shape: Tensor) -> Tensor:
    """_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor"""
    return op.Reshape(self, op.cast(shape, torch.int64))


@table("flatten.using_ints", "unflatten.int", "ravel")
def flatten(op: Builder, self: Tensor, *args: Any) -> Tensor:
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    sizes = sizes_of(op)
    if sizes is None or self.shape is None:
        raise op.error("the rank must be known at export")
    if op.node.op != "aten::unflatten.int":
        return reshaped(op, self, sizes)
    axis = axis_of(op, self, args[0])
    given = [-1] * axis + list(args[1]) + [-1] * (len(sizes) - axis - len(args[1]))
    return reshaped(op, self, sizes, given)


@table("unsqueeze", "unsqueeze_copy")
def unsqueeze(op: Builder, self: Tensor, dim: int) -> Tensor:
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    rank = rank_of(op, self) + 1
    return unsqueezed(op, self, [dim % rank])


@table("squeeze", "squeeze_copy")
def squeeze(op: Builder, self: Tensor) -> Tensor:
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    if self.shape is None:
        return op.Squeeze(self)
    return _squeezed(op, self, list(range(len(self.shape))))


@table("squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze_dims(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)

    Axes that the result lacks are removed, also where their sizes are known only at run time.
    """
    if self.rank == 0:
        return self
    shape, sizes = self.shape or (), sizes_of(op)
    axes = [axis_of(op, self, one) for one in (dim if isinstance(dim, list) else [dim])]
    if sizes is not None and len(shape) - len(sizes) == len(axes):
        return squeezed(op, self, axes)
    return _squeezed(op, self, axes)


def _squeezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Remove those of these axes that have size 1.

    Where the captured rank is unknown, the sizes at run time decide.
    """
    shape = x.shape or ()
    if sizes_of(op) is None and any(not isinstance(shape[axis], int) for axis in axes):
        sizes = op.Shape(x)
        stays = op.constant([axis not in axes for axis in range(len(shape))], torch.bool)
        kept = op.Or(op.Not(op.Equal(sizes, 1)), stays)
        return op.Reshape(x, op.Compress(sizes, kept, axis=0))
    return squeezed(op, x, [axis for axis in axes if shape[axis] == 1])


@table("atleast_1d", "atleast_2d", "atleast_3d")
def atleast(op: Builder, self: Tensor) -> Tensor:
    """atleast_2d(Tensor self) -> Tensor"""
    return _at_least(op, self, int(op.node.op[-2]))


@table("atleast_1d.Sequence", "atleast_2d.Sequence", "atleast_3d.Sequence")
def atleast_sequence(op: Builder, tensors: list[Tensor]) -> list[Tensor]:
    """atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return [_at_least(op, tensor, int(op.node.op[-11])) for tensor in tensors]


def _at_least(op: Builder, x: Tensor, rank: int) -> Tensor:
    missing = {(3, 2): [2], (3, 1): [0, 2]}.get((rank, rank_of(op, x)), range(rank - rank_of(op, x)))
    return unsqueezed(op, x, missing)


# Axes in another order


@table("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def transpose(op: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return swapped(op, self, axis_of(op, self, dim0), axis_of(op, self, dim1)) if self.rank else self


@table("permute", "permute_copy")
def permute(op: Builder, self: Tensor, dims: list[int]) -> Tensor:
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return permuted(op, self, [axis_of(op, self, dim) for dim in dims])


@table("t", "t_copy", "numpy_T")
def t(op: Builder, self: Tensor) -> Tensor:
    """t(Tensor(a) self) -> Tensor(a)"""
    return permuted(op, self, list(reversed(range(rank_of(op, self)))))


@table("mT", "matrix_H", "mH", "adjoint")
def matrix_transpose(op: Builder, self: Tensor) -> Tensor:
    """mT(Tensor(a) self) -> Tensor(a)"""
    if self.dtype.is_complex and op.node.op != "aten::mT":
        op.decline("complex numbers are not supported")
    return swapped(op, self, -1, -2) if self.rank else self


@table("movedim", "moveaxis")
def movedim(op: Builder, self: Tensor, source: Any, destination: Any) -> Tensor:
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    sources = [axis_of(op, self, dim) for dim in (source if isinstance(source, list) else [source])]
    places = [axis_of(op, self, dim) for dim in (destination if isinstance(destination, list) else [destination])]
    moved = dict(zip(places, sources, strict=True))
    rest = iter(axis for axis in range(rank_of(op, self)) if axis not in sources)
    return permuted(op, self, [moved[axis] if axis in moved else next(rest) for axis in range(rank_of(op, self))])


# Expansion and repetition


@table("expand", "expand_copy", "broadcast_to")
def expand(op: Builder, self: Tensor, size: list[Any], implicit: bool = False) -> Tensor:
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    sizes = sizes_of(op)
    if sizes is None or self.shape is None:
        return op.Expand(self, vector(op, [1 if isinstance(one, int) and one == -1 else one for one in size]))
    return expanded(op, self, sizes, size)


@table("expand_as")
def expand_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    sizes = sizes_of(op)
    if sizes is None or self.shape is None or (sum(isinstance(size, SymbolicSize) for size in sizes) > 1 and sizes != self.shape):
        return op.Expand(self, op.Shape(other))
    return expanded(op, self, sizes, others=[other])


@table("broadcast_tensors")
def broadcast_tensors(op: Builder, tensors: list[Tensor]) -> list[Tensor]:
    """broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    sizes = sizes_of(op)
    if sizes is None:
        raise op.error("the ranks must be known at export")
    known = {size for tensor in tensors for size in tensor.shape or ()}
    if all(isinstance(size, int) or size in known or op.size_of(size) is not None for size in sizes):
        return [expanded(op, tensor, sizes, others=tensors) for tensor in tensors]
    shape = op.Shape(functools.reduce(lambda one, other: op.Expand(one, op.Shape(other)), tensors))  # none has the result's size
    return [with_shape(op.Expand(tensor, shape), sizes) for tensor in tensors]


@table("repeat", "tile")
def repeat(op: Builder, self: Tensor, repeats: list[Any]) -> Tensor:
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    rank = rank_of(op, self)
    repeats = [1] * (rank - len(repeats)) + list(repeats)
    lead = len(repeats) - rank
    if all(isinstance(count, int) and count == 1 for count in repeats):
        return unsqueezed(op, self, range(lead))
    shape = (1,) * lead + tuple(self.shape or ())
    if all(size == 1 or (isinstance(count, int) and count == 1) for size, count in zip(shape, repeats, strict=True)):
        return op.Expand(self, vector(op, repeats))
    return op.Tile(unsqueezed(op, self, range(lead)), vector(op, repeats))


# Slices


@table("slice.Tensor", "slice_copy.Tensor")
def slice_(op: Builder, self: Tensor, dim: int, start: Any, end: Any, step: Any) -> Tensor:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    axis = axis_of(op, self, dim)
    start, end = 0 if start is None else start, END if end is None else end
    sizes, step = sizes_of(op), op.static(step, "step") if op.is_static(step) else step
    same = sizes is not None and self.shape is not None and sizes[axis] == self.shape[axis]
    if isinstance(step, int) and step == 1 and (same or _whole(start, end)):
        return self
    return sliced(op, self, axis, start, min(end, END) if isinstance(end, int) else end, step)


def _whole(start: Any, end: Any) -> bool:
    return isinstance(start, int) and isinstance(end, int) and start == 0 and end >= END


@table("narrow", "narrow_copy")
def narrow(op: Builder, self: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    axis = axis_of(op, self, dim)
    if isinstance(start, int) and start < 0 and isinstance(length, int):
        end: Any = END if start + length == 0 else start + length
    elif isinstance(start, int) and isinstance(length, int):
        end = start + length
    else:
        first = op.constant(start, torch.int64)
        end = op.Add(first, op.constant(length, torch.int64))
        if not isinstance(start, int):  # a negative start plus the length may be 0, the end of the axis
            end = op.Where(op.And(op.Less(first, 0), op.Equal(end, 0)), END, end)
    return slice_(op, self, axis, start, end, 1)


def _count_first(op: Builder, self: Tensor, axis: int, index: Any) -> Any:
    """Count a constant index from the front where the size is known."""
    size = None if self.shape is None else self.shape[axis]
    if op.is_static(index):
        index = int(op.static(index, "index"))
        return index + size if index < 0 and isinstance(size, int) else index
    return index


@table("select.int", "select_copy.int")
def select(op: Builder, self: Tensor, dim: int, index: Any) -> Tensor:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    axis = axis_of(op, self, dim)
    index = _count_first(op, self, axis, index)
    if isinstance(index, int) and index < 0:
        return squeezed(op, op.Slice(self, [index], [index + 1 or END], axes=[axis]), [axis])
    return select_slice(op, self, axis, index)


@table("select.int", "select_copy.int", since=11)
def select_11(op: Builder, self: Tensor, dim: int, index: Any) -> Tensor:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    axis = axis_of(op, self, dim)
    return select_slice(op, self, axis, _count_first(op, self, axis, index))


# Sizes


@table("sym_size.int", "size.int")
def size_int(op: Builder, self: Tensor, dim: int) -> Any:
    """size.int(Tensor self, int dim) -> int"""
    return size_at(op, self, axis_of(op, self, dim))


@table("numel", "sym_numel")
def numel(op: Builder, self: Tensor) -> Any:
    """numel(Tensor self) -> int"""
    sizes = [size for size in self.shape or () if isinstance(size, int)]
    if self.shape is not None and len(sizes) == len(self.shape):
        return math.prod(sizes)
    return op.Size(self)


@table("sym_size", "size")
def size(op: Builder, self: Tensor) -> list[Any]:
    """size(Tensor self) -> int[]"""
    return [size_at(op, self, axis) for axis in range(rank_of(op, self))]


def select_slice(op: Builder, x: Tensor, axis: int, index: Any) -> Tensor:
    """Select one index of an axis: ``x.select(axis, index)``.

    The index must count from the front, unless the target opset's Gather takes negative ones.
    """
    made, shape = op.Gather(x, index, axis=axis), x.shape
    if shape is None or (isinstance(index, Tensor) and index.rank):
        return made
    return with_shape(made, [*shape[:axis], *shape[axis + 1 :]])
