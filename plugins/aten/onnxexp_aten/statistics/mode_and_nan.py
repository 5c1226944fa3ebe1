"""Mode, and NaN-ignoring medians, sums and means."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.indexing.gather import gather
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.unary import is_nan
from onnxexp_aten.reduction.reductions import reduced, summable
from onnxexp_aten.statistics.sorting import top
from onnxexp_aten.support.arguments import axis_of
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


def _without(op: Builder, parts: tuple[Tensor, ...], axis: int, keepdim: bool) -> tuple[Tensor, ...]:
    return parts if keepdim else tuple(op.Squeeze(part, axes=[axis]) for part in parts)


@table("mode")
def mode(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices); the least of equally frequent ones"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    values, places = top(op, self, size_at(op, self, axis), axis, largest=False)
    pairs = equal(op, unsqueezed(op, values, [axis]), unsqueezed(op, values, [axis + 1]))
    counts = op.ReduceSum(op.cast(pairs, torch.int32), axes=[axis], keepdims=0)
    first = op.ArgMax(counts, axis=axis, keepdims=1)
    last = op.Sub(op.Add(first, op.cast(gather(op, counts, axis, first, False), torch.int64)), 1)
    return _without(op, (gather(op, values, axis, first, False), gather(op, places, axis, last, False)), axis, keepdim)


@table("nanmedian.dim")
def nanmedian_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, ...]:
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.rank == 0:
        return self, op.constant(0)
    axis = axis_of(op, self, dim)
    size = size_at(op, self, axis)
    last: Any = op.Sub(size, 1) if isinstance(size, Tensor) else size - 1
    if not self.dtype.is_floating_point:
        values, places = top(op, self, size, axis, largest=False)
        middle = op.Add(reduced(op, "ReduceSum", op.Mul(places, 0), [axis], True), op.Div(last, 2))
        return _without(op, tuple(gather(op, part, axis, middle, False) for part in (values, places)), axis, keepdim)
    missing = compare(op, "IsNaN", self)
    _, places = top(op, select(op, missing, op.constant(math.inf, self.dtype), self), size, axis, largest=False)
    middle = op.Div(op.Sub(last, op.ReduceSum(op.cast(missing, torch.int64), axes=[axis], keepdims=1)), 2)
    place = gather(op, places, axis, middle, False)
    return _without(op, (gather(op, self, axis, place, False), place), axis, keepdim)  # any element will do where all are NaN


@table("nanmedian")
def nanmedian(op: Builder, self: Tensor) -> Tensor:
    """nanmedian(Tensor self) -> Tensor"""
    return nanmedian_dim(op, op.Reshape(self, [-1]), 0, False)[0]


@table("nansum")
def nansum(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    known = select(op, is_nan(op, self), op.constant(0.0, self.dtype), self) if self.dtype.is_floating_point else self
    return reduced(op, "ReduceSum", summable(op, known, dtype), dim, keepdim)


@table("nanmean")
def nanmean(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    total = nansum(op, self, dim, keepdim, dtype)
    known = op.cast(op.Not(is_nan(op, self)), total.dtype)
    return compute(op, "Div", total, reduced(op, "ReduceSum", known, dim, keepdim))
