"""Reductions over some dimensions, all of them, or none (0-d tensors)."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.shape.diagonals import diagonal
from onnxexp_aten.support.kernel_dtypes import LEAST_DTYPE, compare, compute, runs, targets_plain_onnx
from onnxexp_aten.support.read_arguments import axes_of, axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.type_promotion import dtype_of, to_float
from onnxexp_aten.support.view_nodes import squeezed

table = SymbolicTable("aten")


_IDENTITY_ON_ONE_ELEMENT = frozenset(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"))
"""Reductions that return a single element unchanged."""


def reduced(op: Builder, name: str, x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor:
    """Apply a Reduce operator.

    `dims` of None or [] means all axes. A 0-d tensor counts as one element.
    """
    if x.rank == 0:
        return x if name in _IDENTITY_ON_ONE_ELEMENT else compute(op, name, op.Reshape(x, [1]), keepdims=0)
    if name == "ReduceMean" and x.shape is not None and any(x.shape[axis] == 0 for axis in axes_of(op, x, dims)):
        return compute(op, "Div", reduced(op, "ReduceSum", x, dims, keepdim), 0)  # an empty mean is NaN, as in torch
    axes = None if dims is None or dims == [] else axes_of(op, x, dims)
    if axes is not None and not keepdim and len(axes) == x.rank:
        axes = None
    return compute(op, name, x, axes=axes, keepdims=int(keepdim))


def summable(op: Builder, x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Cast for a sum: ints and bools to int64 unless a dtype is given."""
    return op.cast(x, dtype_of(dtype, x.dtype if x.dtype.is_floating_point else torch.int64))


# Sums


@table("sum")
def sum_(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(op, "ReduceSum", summable(op, self, dtype))


@table("sum.dim_IntList")
def sum_dim(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(op, "ReduceSum", summable(op, self, dtype), dim, keepdim)


@table("trace")
def trace(op: Builder, self: Tensor) -> Tensor:
    """trace(Tensor self) -> Tensor"""
    return sum_(op, diagonal(op, self, 0, 0, 1), None)


@table("sum_to_size")
def sum_to_size(op: Builder, self: Tensor, size: list[Any]) -> Tensor:
    """sum_to_size(Tensor self, SymInt[] size) -> Tensor; sums over axes that were broadcast"""
    if self.shape is None or not all(isinstance(each, int) for each in size):
        op.decline("the rank and the sizes must be known at export")
    added = len(self.shape) - len(size)
    broadcast = [axis for axis, own in enumerate(self.shape) if axis < added or (size[axis - added] == 1 and own != 1)]
    if not broadcast and size:
        return self
    return squeezed(op, reduced(op, "ReduceSum", summable(op, self, None), broadcast, True), range(added))


@table("mean")
def mean(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(op, "ReduceMean", op.cast(self, dtype_of(dtype, self.dtype)))


@table("mean.dim")
def mean_dim(op: Builder, self: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduced(op, "ReduceMean", op.cast(self, dtype_of(dtype, self.dtype)), dim, keepdim)


@table("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(op: Builder, self: Tensor, dim: Any) -> Tensor:
    """count_nonzero(Tensor self, int? dim=None) -> Tensor"""
    return reduced(op, "ReduceSum", op.cast(op.cast(self, torch.bool), torch.int64), dim)


@table("logsumexp", "special_logsumexp")
def logsumexp(op: Builder, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    x = to_float(op, self)
    if targets_plain_onnx(op):
        return reduced(op, "ReduceLogSumExp", x, dim, keepdim)
    lowest = torch.finfo(x.dtype).min  # ONNX Runtime takes 0 for the maximum where an axis begins with -inf
    result = reduced(op, "ReduceLogSumExp", compute(op, "Max", x, lowest), dim, keepdim)
    return select(op, compare(op, "Less", result, op.constant(lowest / 2, x.dtype)), op.constant(-math.inf, x.dtype), result)


# any and all


@table("any", "any.dim", "any.dims")
def any_(op: Builder, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor; False for no elements"""
    truth = op.cast(self, torch.bool)
    if _can_reduce_bools(op, self, dim):
        return op.cast(reduced(op, "ReduceMax", truth, dim, keepdim), _truth_dtype(self))
    return op.cast(op.cast(reduced(op, "ReduceSum", op.cast(truth, torch.int32), dim, keepdim), torch.bool), _truth_dtype(self))


@table("all", "all.dim", "all.dims")
def all_(op: Builder, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor; True for no elements"""
    truth = op.cast(self, torch.bool)
    if _can_reduce_bools(op, self, dim):
        return op.cast(reduced(op, "ReduceMin", truth, dim, keepdim), _truth_dtype(self))
    return op.cast(op.cast(reduced(op, "ReduceMin", op.cast(truth, LEAST_DTYPE), dim, keepdim), torch.bool), _truth_dtype(self))


def _can_reduce_bools(op: Builder, x: Tensor, dims: Any) -> bool:
    """Return whether bools can be reduced without a cast.

    ONNX reduces bools from opset 20 on, but ONNX Runtime rejects empty reductions.
    """
    sizes = [x.shape[axis] for axis in axes_of(op, x, dims)] if x.shape else []
    may_be_empty = not all(isinstance(size, int) and size > 0 for size in sizes)
    return (targets_plain_onnx(op) or not may_be_empty) and runs(op, "ReduceMax", torch.bool)


def _truth_dtype(x: Tensor) -> torch.dtype:
    """Return the result dtype of any and all: uint8 for uint8, else bool."""
    return torch.uint8 if x.dtype == torch.uint8 else torch.bool


# Extremes


@table("amax", "max")
def amax(op: Builder, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced(op, "ReduceMax", self, dim, keepdim)


@table("amin", "min")
def amin(op: Builder, self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced(op, "ReduceMin", self, dim, keepdim)


@table("aminmax")
def aminmax(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    """aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    dims = None if dim is None else [dim]
    return reduced(op, "ReduceMin", self, dims, keepdim), reduced(op, "ReduceMax", self, dims, keepdim)


@table("max.dim")
def max_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return reduced(op, "ReduceMax", self, [dim], keepdim), argmax(op, self, dim, keepdim)


@table("min.dim")
def min_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return reduced(op, "ReduceMin", self, [dim], keepdim), argmin(op, self, dim, keepdim)


@table("argmax")
def argmax(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _position(op, "ArgMax", self, dim, keepdim)


@table("argmin")
def argmin(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _position(op, "ArgMin", self, dim, keepdim)


def _position(op: Builder, name: str, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """Apply ArgMax or ArgMin; without `dim`, to the flattened tensor."""
    if dim is not None and x.rank != 0:
        return compare(op, name, x, axis=axis_of(op, x, dim), keepdims=int(keepdim))
    found = compare(op, name, op.Reshape(x, [-1]), axis=0, keepdims=0)
    return op.Reshape(found, [1] * rank_of(op, x)) if keepdim and x.rank != 0 else found


# Variance


@table("var", "var.dim", "var.correction")
def var(op: Builder, self: Tensor, *args: Any) -> Tensor:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return _variance(op, self, *_variance_arguments(*args))[0]


@table("std", "std.dim", "std.correction")
def std(op: Builder, self: Tensor, *args: Any) -> Tensor:
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return compute(op, "Sqrt", var(op, self, *args))


@table("var_mean", "var_mean.dim", "var_mean.correction")
def var_mean(op: Builder, self: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    return _variance(op, self, *_variance_arguments(*args))


@table("std_mean", "std_mean.dim", "std_mean.correction")
def std_mean(op: Builder, self: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    variance, mean = var_mean(op, self, *args)
    return compute(op, "Sqrt", variance), mean


def _variance_arguments(*args: Any) -> tuple[Any, Any, bool]:
    """Return the arguments (dims, correction, keepdim) of any overload.

    The overloads have (unbiased), (dim, unbiased, keepdim) or (dim, correction, keepdim).
    """
    dims, correction, keepdim = (None, args[0], False) if len(args) == 1 else args
    return dims, 1 if correction is None else correction, keepdim


def _variance(op: Builder, x: Tensor, dims: Any, correction: Any, keepdim: bool) -> tuple[Tensor, Tensor]:
    if x.rank == 0:
        x, dims, keepdim = op.Reshape(x, [1]), None, False
    axes = axes_of(op, x, dims)
    mean = reduced(op, "ReduceMean", x, axes, True)
    squares = reduced(op, "ReduceSumSquare", compute(op, "Sub", x, mean), axes, keepdim)
    variance = compute(op, "Div", squares, _degrees_of_freedom(op, x, axes, correction))
    return variance, mean if keepdim else op.Squeeze(mean, axes=axes)


def _degrees_of_freedom(op: Builder, x: Tensor, axes: list[int], correction: Any) -> Any:
    size = count(op, x, axes)
    if op.is_static(correction):
        correction = float(op.static(correction))
        if not isinstance(size, Tensor):
            return max(size - correction, 0.0)
        if not correction:
            return op.cast(size, x.dtype)
    return compute(op, "Relu", compute(op, "Sub", op.cast(size, x.dtype), op.cast(correction, x.dtype)))


def count(op: Builder, x: Tensor, axes: list[int]) -> int | Tensor:
    """Count the elements along these axes, in a 0-d int64 tensor if dynamic."""
    static = 1
    dynamic: list[Tensor] = []
    for axis in axes:
        size = size_at(op, x, axis)
        if isinstance(size, Tensor):
            dynamic.append(size)
        else:
            static *= size
    if not dynamic:
        return static
    result = dynamic[0]
    for size in dynamic[1:]:
        result = op.Mul(result, size)
    return result if static == 1 else op.Mul(result, static)
