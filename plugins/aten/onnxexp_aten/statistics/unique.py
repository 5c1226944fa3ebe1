"""Unique elements."""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.reduction.reductions import any_
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.kernel_dtypes import compare, compress
from onnxexp_aten.support.view_nodes import END, sliced

table = SymbolicTable("aten")


@table("_unique2")
def unique2(op: Builder, self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"""
    values, inverse, counts = _unique(op, self, None)
    return (
        values,
        op.Reshape(inverse, op.Shape(self)) if return_inverse else _nothing(op),
        counts if return_counts else _nothing(op),
    )


@table("_unique")
def unique(op: Builder, self: Tensor, sorted: bool, return_inverse: bool) -> tuple[Tensor, Tensor]:
    """_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"""
    return unique2(op, self, sorted, return_inverse, False)[:2]


@table("unique_dim")
def unique_dim(
    op: Builder, self: Tensor, dim: int, sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, ...) -> (Tensor, Tensor, Tensor)"""
    values, inverse, counts = _unique(op, self, axis_of(op, self, dim))
    return values, inverse if return_inverse else _nothing(op), counts if return_counts else _nothing(op)


def _unique(op: Builder, x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor]:
    values, _, inverse, counts = compare(op, "Unique", x, axis=axis, outputs=4)
    return op.cast(values, x.dtype), inverse, counts


def _nothing(op: Builder) -> Tensor:
    return op.constant([], torch.int64)


@table("unique_consecutive")
def unique_consecutive(
    op: Builder, self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """unique_consecutive(Tensor self, bool return_inverse=False, ...) -> (Tensor, Tensor, Tensor)"""
    if dim is not None and rank_of(op, self) == 0:
        op.decline("a 0-d tensor has no dimensions")
    x = op.Reshape(self, [-1]) if dim is None and self.rank != 1 else self
    axis, rank = 0 if dim is None else axis_of(op, self, dim), rank_of(op, x)
    length = op.Shape(x) if rank == 1 else op.Slice(op.Shape(x), [axis], [axis + 1], [0])
    changes = op.Not(equal(op, sliced(op, x, axis, 1, END), sliced(op, x, axis, 0, -1)))
    if rank != 1:
        changes = any_(op, changes, [other for other in range(rank) if other != axis])
    first = op.Expand(op.constant(True), extreme(op, "Min", length, op.constant([1])))
    starts = op.Concat(first, changes, axis=0)
    inverse = op.Sub(op.CumSum(op.cast(starts, torch.int64), 0), 1) if return_inverse else _nothing(op)
    if return_inverse and dim is None and self.rank != 1:
        inverse = op.Reshape(inverse, op.Shape(self))
    values = compress(op, x, starts, axis=axis)
    return values, inverse, _runs_of(op, starts, length) if return_counts else _nothing(op)


def _runs_of(op: Builder, starts: Tensor, length: Tensor) -> Tensor:
    begins = op.Reshape(op.NonZero(starts), [-1])
    ends = op.Concat(op.Slice(begins, [1], [END], [0]), length, axis=0)
    return op.Sub(ends, begins)
