"""Flips, rotations, rolls and sliding windows."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import END, permuted, reshaped, sliced, swapped, unsqueezed

table = SymbolicTable("aten")


@table("flip")
def flip(op: Builder, self: Tensor, dims: list[int]) -> Tensor:
    """flip(Tensor self, int[] dims) -> Tensor"""
    return reversed_along(op, self, [axis_of(op, self, dim) for dim in dims] if self.rank else [])


@table("fliplr", "flipud")
def fliplr(op: Builder, self: Tensor) -> Tensor:
    """fliplr(Tensor self) -> Tensor"""
    return reversed_along(op, self, [1 if op.node.op == "aten::fliplr" else 0])


def reversed_along(op: Builder, x: Tensor, axes: list[int]) -> Tensor:
    """Reverse axes by Slice with negative steps.

    Before opset 10 a table of indices reverses an axis.
    """
    if not axes:
        return x
    if op.opset >= 10:  # Slice has steps; one helper of many symbolics, so no `since=`
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
        rolled = _rolled(op, op.Reshape(self, [-1]), 0, shifts[0])
        return reshaped(op, rolled, self.shape or (), given=[size_at(op, self, axis) for axis in range(rank_of(op, self))])
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
    start = op.Sub(size, op.Mod(shift, op.Where(op.Equal(size, 0), 1, size)))  # no element of an empty axis moves
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
    """Return the begins of the windows that fit into an axis."""
    length = size_at(op, x, axis)
    end = length - size + 1 if isinstance(length, int) else op.Sub(length, size - 1)
    return arange_of(op, 0, end, step, torch.int64)


@table("fft_fftshift")
def fft_fftshift(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor"""
    return _shifted(op, self, dim, forward=True)


@table("fft_ifftshift")
def fft_ifftshift(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor"""
    return _shifted(op, self, dim, forward=False)


def _shifted(op: Builder, x: Tensor, dim: Any, *, forward: bool) -> Tensor:
    """Roll each axis by half of its size, forward or back."""
    rank = rank_of(op, x)
    dims = range(rank) if dim is None else dim if isinstance(dim, list) else [dim]
    axes = [axis % rank for axis in dims]
    halves: list[Any] = []
    for size in (size_at(op, x, axis) for axis in axes):
        half = size // 2 if isinstance(size, int) else op.Div(size, 2)
        halves.append(half if forward else op.Neg(half) if isinstance(half, Tensor) else -half)
    return roll(op, x, halves, axes)
