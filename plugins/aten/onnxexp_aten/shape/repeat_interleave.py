"""Repetition of each element: repeat_interleave."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.constant_of_shape import MAX_TABLE
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of, vector
from onnxexp_aten.support.view_nodes import reshaped, unsqueezed

table = SymbolicTable("aten")


@table("repeat_interleave.self_int")
def repeat_interleave(op: Builder, self: Tensor, repeats: Any, dim: int | None, output_size: Any) -> Tensor:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    x = self if dim is not None else op.Reshape(self, [-1])
    axis = axis_of(op, x, dim or 0)
    length = size_at(op, x, axis)
    if isinstance(repeats, int) and isinstance(length, int) and length * repeats <= MAX_TABLE:
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
    """Return the source position of each repeated element, int64[n]."""
    ends = op.CumSum(op.cast(repeats, torch.int64), 0)
    total = op.ReduceSum(op.cast(repeats, torch.int64), axes=[0], keepdims=0)
    places = unsqueezed(op, arange_of(op, 0, total, 1, torch.int64), [1])
    passed = op.Not(op.Less(places, ends))
    return op.ReduceSum(op.cast(passed, torch.int64), axes=[1], keepdims=0)
