"""Sorting, the largest elements, distinct elements, and where elements are."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.new_tensors import sizes_like
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.math.comparison import equal, relate
from onnxexp_aten.random.uniform_and_normal import uniform_of
from onnxexp_aten.reduction.reductions import any_
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.composed_views import END, size_at, sliced, unsqueezed
from onnxexp_aten.support.kernel_dtypes import compare, compute, running_dtype, runs
from onnxexp_aten.support.type_promotion import promote

__all__ = ["positions", "table", "top"]

table = SymbolicTable("aten")


def top(op: Builder, x: Tensor, k: Any, axis: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """``TopK``: the k largest or smallest elements in order, and where they are; of equal ones the first comes first."""
    inner = running_dtype(op, "TopK", x.dtype)
    if largest or runs(op, "TopK", torch.int64):
        values, indices = op.TopK(op.cast(x, inner), [k], axis=axis, largest=None if largest else 0, outputs=2)
        return op.cast(values, x.dtype), indices
    negated, indices = op.TopK(op.Neg(op.cast(x, inner)), [k], axis=axis, outputs=2)
    return op.cast(op.Neg(negated), x.dtype), indices


@table("topk")
def topk(op: Builder, self: Tensor, k: Any, dim: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    return top(op, self, k, axis_of(op, self, dim), largest=largest)


@table("sort")
def sort(op: Builder, self: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    return top(op, self, size_at(op, self, axis), axis, largest=descending)


@table("sort.stable")
def sort_stable(op: Builder, self: Tensor, stable: bool | None, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    return sort(op, self, dim, descending)


@table("argsort")
def argsort(op: Builder, self: Tensor, dim: int, descending: bool) -> Tensor:
    """argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    return sort(op, self, dim, descending)[1]


@table("argsort.stable")
def argsort_stable(op: Builder, self: Tensor, stable: bool, dim: int, descending: bool) -> Tensor:
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return sort(op, self, dim, descending)[1]


@table("msort")
def msort(op: Builder, self: Tensor) -> Tensor:
    """msort(Tensor self) -> Tensor"""
    return sort(op, self, 0, False)[0]


@table("kthvalue")
def kthvalue(op: Builder, self: Tensor, k: Any, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    last = [op.Sub(k, 1)] if isinstance(k, Tensor) else [k - 1]
    found = (op.Gather(part, op.constant(last), axis=axis) for part in top(op, self, k, axis, largest=False))
    values, indices = (part if keepdim else op.Squeeze(part, axes=[axis]) for part in found)
    return values, indices


@table("median.dim")
def median_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    return kthvalue(op, self, _middle(op, size_at(op, self, axis_of(op, self, dim))), dim, keepdim)


@table("median")
def median(op: Builder, self: Tensor) -> Tensor:
    """median(Tensor self) -> Tensor, of an even count the lower one"""
    flat = op.Reshape(self, [-1])
    return kthvalue(op, flat, _middle(op, size_at(op, flat, 0)), 0, False)[0]


def _middle(op: Builder, size: Any) -> Any:
    return op.Div(op.Add(size, 1), 2) if isinstance(size, Tensor) else (size + 1) // 2


# Distinct elements


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
        op.decline("a single element has no dims")
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
    values = op.Compress(x, starts, axis=axis)
    return values, inverse, _runs_of(op, starts, length) if return_counts else _nothing(op)


def _runs_of(op: Builder, starts: Tensor, length: Tensor) -> Tensor:
    begins = op.Reshape(op.NonZero(starts), [-1])
    ends = op.Concat(op.Slice(begins, [1], [2**63 - 1], [0]), length, axis=0)
    return op.Sub(ends, begins)


# Where elements are


@table("nonzero", "argwhere")
def nonzero(op: Builder, self: Tensor) -> Tensor:
    """nonzero(Tensor self) -> Tensor: one row of indices for each element that is not zero"""
    if self.rank == 0:
        return op.Slice(op.Transpose(positions(op, op.Reshape(self, [1])), perm=[1, 0]), [0], [0], [1])
    found = positions(op, self)
    return op.Reshape(found, [-1, 1]) if self.rank == 1 else op.Transpose(found, perm=[1, 0])


@table("nonzero_numpy", "where")
def nonzero_numpy(op: Builder, self: Tensor) -> list[Tensor]:
    """nonzero_numpy(Tensor self) -> Tensor[]: the indices along each dimension"""
    found = positions(op, op.Reshape(self, [1]) if self.rank == 0 else self)
    return [op.Gather(found, axis, axis=0) for axis in range(max(rank_of(op, self), 1))]


@table("nonzero_static")
def nonzero_static(op: Builder, self: Tensor, size: Any, fill_value: int) -> Tensor:
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor: `nonzero` cut off or filled up to a size"""
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
    """``NonZero``: the indices of what is not zero, one column for each, one row for each dimension."""
    return op.NonZero(x if runs(op, "NonZero", x.dtype) else op.cast(x, torch.bool))


@table("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    op: Builder, sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None, sorter: Tensor | None
) -> Tensor:
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, ...) -> Tensor"""
    if sorter is not None:
        op.decline("searchsorted with a sorter is not lowered")
    return _insertion_point(op, self, sorted_sequence, right or side == "right", out_int32)


@table("bucketize.Tensor", "bucketize.Scalar")
def bucketize(op: Builder, self: Any, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _insertion_point(op, self, boundaries, right, out_int32)


def _insertion_point(op: Builder, x: Any, boundaries: Tensor, right: bool, narrow: bool) -> Tensor:
    """How many boundaries (last dimension) lie before each element: below it, or with `right` not above it."""
    x, boundaries = promote(op, x, boundaries)
    rank, scalar = rank_of(op, boundaries), x.rank == 0
    if rank > 1 and not scalar:
        boundaries = op.Unsqueeze(boundaries, axes=[rank - 1])
    elements = x if scalar else op.Unsqueeze(x, axes=[rank_of(op, x)])
    before = op.cast(relate(op, "LessOrEqual" if right else "Less", boundaries, elements), torch.int32)
    last = max(rank_of(op, boundaries), rank_of(op, elements)) - 1
    return op.cast(op.ReduceSum(before, axes=[last], keepdims=0), torch.int32 if narrow else torch.int64)


@table("multinomial")
def multinomial(op: Builder, self: Tensor, num_samples: Any, replacement: bool, generator: Any) -> Tensor:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    if replacement or num_samples == 1:
        rows = op.Unsqueeze(self, axes=[0]) if self.rank == 1 else self
        drawn = _drawn(op, rows, num_samples)
        return op.Squeeze(drawn, axes=[0]) if self.rank == 1 else drawn
    scores = op.cast(compute(op, "Log", self), torch.float32)
    noise = op.Neg(op.Log(uniform_of(op, sizes_like(op, self), torch.float32, 1e-7, 1.0)))
    return top(op, op.Sub(scores, op.Log(noise)), num_samples, rank_of(op, self) - 1, largest=True)[1]


def _drawn(op: Builder, rows: Tensor, count: Any) -> Tensor:
    """int64[rows, count]: places in each row of weights, drawn with replacement."""
    if runs(op, "Multinomial", torch.float32):
        scores = compute(op, "Log", rows)
        return compare(op, "Multinomial", scores, sample_size=op.static(count, "num_samples"), dtype=torch.int64)  # type: ignore[no-any-return]
    sums = op.CumSum(op.cast(rows, torch.float64), 1)
    total = op.Slice(sums, starts=[-1], ends=[2**62], axes=[1])
    drawn = op.Mul(uniform_of(op, [size_at(op, rows, 0), count], torch.float64), total)
    return searchsorted(op, sums, drawn, False, True, None, None)
