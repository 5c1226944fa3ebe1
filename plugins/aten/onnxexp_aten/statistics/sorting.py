"""Sorting, topk, kthvalue, medians and unique elements."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.reduction.reductions import any_
from onnxexp_aten.shape.flip_roll_unfold import reversed_along
from onnxexp_aten.support.kernel_dtypes import compare, compress, running_dtype, runs
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import END, sliced

table = SymbolicTable("aten")


def top(op: Builder, x: Tensor, k: Any, axis: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Emit ``TopK``: the k largest or smallest elements in order, and their indices.

    The first of equal elements comes first, and NaN counts as the largest.
    """
    data = op.cast(x, running_dtype(op, "TopK", x.dtype))
    size = size_at(op, x, axis)
    if largest or runs(op, "TopK", torch.int64):
        values, indices = op.TopK(data, [k], axis=axis, largest=None if largest else 0, outputs=2)
    elif not x.dtype.is_floating_point:
        negated, indices = op.TopK(op.Neg(data), [k], axis=axis, outputs=2)
        values = op.Neg(negated)
    elif isinstance(size, int) or op.opset >= 10:  # at opset 9, the number of elements is static
        values, indices = _end_of_all(op, data, k, axis, size)
    else:
        values, indices = _largest_negated(op, data, k, axis)
    return op.cast(values, x.dtype), indices


def _end_of_all(op: Builder, x: Tensor, k: Any, axis: int, size: Any) -> tuple[Tensor, Tensor]:
    """Return the k smallest: the end of the reversed axis, sorted from the largest."""
    x = reversed_along(op, x, [axis])
    values, places = (reversed_along(op, each, [axis]) for each in op.TopK(x, [size], axis=axis, outputs=2))
    indices = op.Sub(op.Sub(size, 1), places)
    if not (isinstance(k, int) and k == size):
        values, indices = (sliced(op, each, axis, 0, k) for each in (values, indices))
    return values, indices


def _largest_negated(op: Builder, x: Tensor, k: Any, axis: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest elements, with NaN behind all numbers.

    The indices of NaN and infinity may change places.
    """
    nan = op.IsNaN(x)
    negated, indices = op.TopK(op.Where(nan, op.constant(-math.inf, x.dtype), op.Neg(x)), [k], axis=axis, outputs=2)
    numbers = op.ReduceSum(op.cast(op.Not(nan), torch.float32), axes=[axis], keepdims=1)
    places = torch.arange(op.static(k), dtype=torch.float32).reshape([-1] + [1] * (rank_of(op, x) - 1 - axis))
    return op.Where(op.Less(op.constant(places), numbers), op.Neg(negated), op.constant(math.nan, x.dtype)), indices


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
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices); the first NaN, if any"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    values, indices = kthvalue(op, self, _middle(op, size_at(op, self, axis)), dim, keepdim)
    if not self.dtype.is_floating_point:
        return values, indices
    missing = op.cast(compare(op, "IsNaN", self), torch.int32)
    some = op.cast(op.ReduceMax(missing, axes=[axis], keepdims=int(keepdim)), torch.bool)
    first = op.ArgMax(missing, axis=axis, keepdims=int(keepdim))
    return select(op, some, op.constant(math.nan, self.dtype), values), select(op, some, first, indices)


@table("median")
def median(op: Builder, self: Tensor) -> Tensor:
    """median(Tensor self) -> Tensor; the lower of two middle elements, or NaN if any element is"""
    flat = op.Reshape(self, [-1])
    found = _middle_element(op, flat)
    if not self.dtype.is_floating_point:
        return found
    missing = op.ReduceSum(op.cast(compare(op, "IsNaN", flat), torch.int32), keepdims=0)  # 0 for no elements
    return select(op, op.cast(missing, torch.bool), op.constant(math.nan, self.dtype), found)


def _middle_element(op: Builder, flat: Tensor) -> Tensor:
    size = size_at(op, flat, 0)
    if not isinstance(size, Tensor):
        return kthvalue(op, flat, _middle(op, size), 0, False)[0]
    middle = _middle(op, size)
    lower = top(op, flat, middle, 0, largest=False)[0]
    of_none = op.constant(torch.empty(0, dtype=flat.dtype).median().reshape(1))
    return op.Gather(op.Concat(lower, of_none, axis=0), op.Sub(middle, 1), axis=0)  # index -1 where there is no element


def _middle(op: Builder, size: Any) -> Any:
    return op.Div(op.Add(size, 1), 2) if isinstance(size, Tensor) else (size + 1) // 2


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
