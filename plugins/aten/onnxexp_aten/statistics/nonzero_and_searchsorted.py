"""Searching: nonzero, isin, searchsorted and bucketize."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.comparison_and_bitwise import equal, relate
from onnxexp_aten.reduction.reductions import any_
from onnxexp_aten.support.kernel_dtypes import runs
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.type_promotion import promote
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


@table("nonzero", "argwhere")
def nonzero(op: Builder, self: Tensor) -> Tensor:
    """nonzero(Tensor self) -> Tensor; one row of indices per nonzero element"""
    if self.rank == 0:
        return op.Slice(op.Transpose(positions(op, op.Reshape(self, [1])), perm=[1, 0]), [0], [0], [1])
    found = positions(op, self)
    return op.Reshape(found, [-1, 1]) if self.rank == 1 else op.Transpose(found, perm=[1, 0])


@table("nonzero_numpy", "where")
def nonzero_numpy(op: Builder, self: Tensor) -> list[Tensor]:
    """nonzero_numpy(Tensor self) -> Tensor[]; the indices along each dimension"""
    found = positions(op, op.Reshape(self, [1]) if self.rank == 0 else self)
    return [op.Gather(found, axis, axis=0) for axis in range(max(rank_of(op, self), 1))]


@table("nonzero_static")
def nonzero_static(op: Builder, self: Tensor, size: Any, fill_value: int) -> Tensor:
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor; `nonzero` cropped or padded to a size"""
    width = rank_of(op, self)
    size = int(op.static(size, "the number of rows"))
    filling = op.constant(torch.full((size, width), fill_value))
    return op.Slice(op.Concat(nonzero(op, self), filling, axis=0), [0], [size], [0])


@table("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(op: Builder, elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Tensor:
    """isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor"""
    one, other = promote(op, elements, test_elements)
    if other.rank == 0:
        found = equal(op, one, other)
    else:
        rank, tests = rank_of(op, one), other if other.rank == 1 else op.Reshape(other, [-1])
        found = any_(op, equal(op, unsqueezed(op, one, [rank]) if rank else one, tests), [rank])
    return op.Not(found) if invert else found


def positions(op: Builder, x: Tensor) -> Tensor:
    """Emit ``NonZero``: indices of nonzero elements, a row for each dimension."""
    return op.NonZero(x if runs(op, "NonZero", x.dtype) else op.cast(x, torch.bool))


@table("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    op: Builder, sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None, sorter: Tensor | None
) -> Tensor:
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, ...) -> Tensor"""
    if sorter is not None:
        op.decline("a sorter is not supported")
    return _insertion_point(op, self, sorted_sequence, right or side == "right", out_int32)


@table("bucketize.Tensor", "bucketize.Scalar")
def bucketize(op: Builder, self: Any, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _insertion_point(op, self, boundaries, right, out_int32)


def _insertion_point(op: Builder, x: Any, boundaries: Tensor, right: bool, narrow: bool) -> Tensor:
    """Count the boundaries before each element.

    The boundaries lie along the last dimension. A boundary counts if it is below the element, with `right` also if it is equal.
    All boundaries are before NaN.
    """
    x, boundaries = promote(op, x, boundaries)
    rank, scalar = rank_of(op, boundaries), x.rank == 0
    if rank > 1 and not scalar:
        boundaries = op.Unsqueeze(boundaries, axes=[rank - 1])
    elements = x if scalar else op.Unsqueeze(x, axes=[rank_of(op, x)])
    if x.dtype.is_floating_point:
        before = op.Not(relate(op, "Greater" if right else "GreaterOrEqual", boundaries, elements))
    else:
        before = relate(op, "LessOrEqual" if right else "Less", boundaries, elements)
    last = max(rank_of(op, boundaries), rank_of(op, elements)) - 1
    count = op.ReduceSum(op.cast(before, torch.int32), axes=[last], keepdims=0)
    return op.cast(count, torch.int32 if narrow else torch.int64)
