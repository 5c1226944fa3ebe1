"""Write by index: scatter, index_copy, index_add; results are new tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.indexing.gather import counted_from_front
from onnxexp_aten.math.arithmetic import extreme, floor_divide, select
from onnxexp_aten.shape.padding import padded
from onnxexp_aten.support.constant_of_shape import full_of, sizes_like
from onnxexp_aten.support.kernel_dtypes import compute, targets_plain_onnx
from onnxexp_aten.support.offset_ranges import start_of_range
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector, with_shape
from onnxexp_aten.support.view_nodes import sliced, unsqueezed

table = SymbolicTable("aten")

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}
"""Reductions: torch's names and ONNX's."""


_SINCE = {"none": 11, "add": 16, "mul": 16, "max": 18, "min": 18}
"""The first opset at which ScatterElements and ScatterND have a reduction."""


def can_reduce(op: Builder, reduction: str) -> bool:
    """Return whether ONNX's scatter operators have a reduction at the target opset.

    A table decides, since the schemas do not list the values of an attribute.
    """
    return op.opset >= _SINCE[reduction]


def scatter_elements(op: Builder, x: Tensor, axis: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    """Emit ScatterElements, or an equivalent where it lacks the dtype or reduction."""
    index = index if index.dtype in (torch.int32, torch.int64) else op.cast(index, torch.int64)
    inner = reducing_dtype(op, x.dtype)
    if reduction != "none" and x.dtype != inner:
        wide = [op.cast(tensor, inner) for tensor in (x, source)]
        return op.cast(scatter_elements(op, wide[0], axis, index, wide[1], reduction), x.dtype)
    if can_reduce(op, reduction):
        return op.ScatterElements(x, index, source, axis=axis, reduction=reduction)
    if reduction != "none":
        return _composed(op, x, axis, index, source, reduction)
    return op.Scatter(x, counted_from_front(op, index, size_at(op, x, axis)), source, axis=axis)


def reducing_dtype(op: Builder, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which a scatter reduces.

    ONNX reduces no bools, and ONNX Runtime has no kernels for half precision.
    """
    if targets_plain_onnx(op) and dtype.is_floating_point:
        return dtype
    return {torch.bool: torch.int32, torch.float16: torch.float32, torch.bfloat16: torch.float32}.get(dtype, dtype)


_REDUCERS = {"add": ("ReduceSum", "Add"), "mul": ("ReduceProd", "Mul"), "max": ("ReduceMax", "Max"), "min": ("ReduceMin", "Min")}


def _composed(op: Builder, x: Tensor, axis: int, index: Tensor, source: Tensor, reduction: str) -> Tensor:
    """Scatter with a reduction by comparing every index with every position.

    The comparison takes memory proportional to the product of both sizes.
    """
    missing = _missing(op, x, axis, index, reduction)
    index = counted_from_front(op, index, size_at(op, x, axis))
    reduce, combine = _REDUCERS[reduction]
    places = arange_of(op, 0, size_at(op, x, axis), 1, torch.int64)
    places = unsqueezed(op, places, [place for place in range(rank_of(op, x) + 1) if place != axis])
    hits = op.Equal(unsqueezed(op, op.cast(index, torch.int64), [axis]), places)  # [..., places, indices, ...]
    torch_name = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    neutral = op.constant(_neutral(torch_name, x.dtype), x.dtype)
    kept = select(op, hits, unsqueezed(op, source, [axis]), neutral)
    result = compute(op, reduce, kept, axes=[axis + 1], keepdims=0)
    if any(missing):
        amounts = [amount for count in reversed(missing) for amount in (0, count)]
        result = padded(op, result, amounts, "constant", _neutral(torch_name, x.dtype))
    return extreme(op, combine, x, result) if reduction in ("max", "min") else compute(op, combine, x, result)


def _missing(op: Builder, x: Tensor, axis: int, index: Tensor, reduction: str) -> list[int]:
    """Count the elements that the index lacks along each axis but its own."""
    pairs = list(zip(x.shape or (), index.shape or (), strict=True))
    pairs[axis] = (0, 0)
    if any(size != part and not (isinstance(size, int) and isinstance(part, int)) for size, part in pairs):
        op.opset_error(
            f"a scatter with reduction {reduction!r} into part of a tensor needs ScatterElements with reductions",
            _SINCE[reduction],
        )
    return [size - part if isinstance(size, int) and isinstance(part, int) else 0 for size, part in pairs]


def _like_index(op: Builder, source: Tensor, index: Tensor) -> Tensor:
    """Crop the source to the size of the index; torch accepts larger ones."""
    axes = [axis for axis, size in enumerate(source.shape or ()) if size != (index.shape or ())[axis]]
    for axis in axes:
        source = sliced(op, source, axis, 0, size_at(op, index, axis))
    return source


def _flat(op: Builder, *tensors: Tensor) -> list[Tensor]:
    """Convert 0-d tensors to 1-d tensors."""
    return [tensor if tensor.rank != 0 else op.Reshape(tensor, [1]) for tensor in tensors]


def _scatter(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    x, place, values = _flat(op, self, index, source)
    result = scatter_elements(op, x, axis_of(op, x, dim), place, _like_index(op, values, place), reduction)
    return result if self.rank else op.Reshape(result, [])


@table("scatter.src")
def scatter_src(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(op, self, dim, index, src)


@table("scatter.value")
def scatter_value(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scatter(op, self, dim, index, full_of(op, sizes_like(op, index), value, self.dtype))


@table("scatter.reduce")
def scatter_src_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Tensor:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scatter(op, self, dim, index, src, _REDUCTIONS[reduce])


@table("scatter.value_reduce")
def scatter_value_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any, reduce: str) -> Tensor:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    return _scatter(op, self, dim, index, full_of(op, sizes_like(op, index), value, self.dtype), _REDUCTIONS[reduce])


@table("scatter_add")
def scatter_add(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(op, self, dim, index, src, "add")


# Reductions

_NEUTRAL: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1, "amax": "lowest", "amin": "highest"}


def _neutral(reduce: str, dtype: torch.dtype) -> Any:
    """Return the neutral element of a reduction."""
    value = _NEUTRAL[reduce]
    if not isinstance(value, str):
        return value
    if dtype == torch.bool:
        return value == "highest"
    if dtype.is_floating_point:
        return float("-inf") if value == "lowest" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if value == "lowest" else limits.max


def _reduced(op: Builder, self: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """Scatter with a reduction, with or without the old values."""
    start = self
    if not include_self:
        start = scatter_elements(
            op, self, axis, index, full_of(op, sizes_like(op, index), _neutral(reduce, self.dtype), self.dtype)
        )
    if reduce != "mean":
        return scatter_elements(op, start, axis, index, source, _REDUCTIONS[reduce])
    total = scatter_elements(op, start, axis, index, source, "add")
    ones = full_of(op, sizes_like(op, index), 1, self.dtype)
    count = scatter_elements(op, full_of(op, sizes_like(op, self), int(include_self), self.dtype), axis, index, ones, "add")
    count = count if include_self else extreme(op, "Max", count, op.constant(1, count.dtype))
    return op.Div(total, count) if self.dtype.is_floating_point else floor_divide(op, total, count)


@table("scatter_reduce.two")
def scatter_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""
    x, place, source = _flat(op, self, index, src)
    result = _reduced(op, x, axis_of(op, x, dim), place, _like_index(op, source, place), reduce, include_self)
    return result if self.rank else op.Reshape(result, [])


@table("index_reduce")
def index_reduce(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"""
    x, values = _flat(op, self, source)
    axis = axis_of(op, x, dim)
    result = _reduced(op, x, axis, _spread(op, x, index, values, axis), values, reduce, include_self)
    return result if self.rank else op.Reshape(result, [])


# One index for each slice


def _spread(op: Builder, x: Tensor, index: Tensor, source: Tensor, axis: int) -> Tensor:
    """Expand a 1-d index to the size of the slices it selects."""
    (flat,) = _flat(op, index)
    rank = rank_of(op, source)
    wide = unsqueezed(op, flat, [place for place in range(rank) if place != axis])
    if source.shape is None:
        return op.Expand(wide, op.Shape(source))
    if all(isinstance(size, int) for size in source.shape):
        return op.Expand(wide, list(source.shape))
    return with_shape(
        op.Expand(wide, op.Shape(source)), [*(x.shape or ())[:axis], source.shape[axis], *(x.shape or ())[axis + 1 :]]
    )


def scatter_slices(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduction: str = "none") -> Tensor:
    """Write slices at a 1-d index along one axis.

    ScatterND serves the first axis, ScatterElements the others.
    """
    x, values = _flat(op, self, source)
    axis = axis_of(op, x, dim)
    if axis == 0 and can_reduce(op, reduction):
        (flat,) = _flat(op, index)
        places = unsqueezed(op, op.cast(flat, torch.int64), [1])
        inner = x.dtype if reduction == "none" else reducing_dtype(op, x.dtype)
        result = op.cast(op.ScatterND(op.cast(x, inner), places, op.cast(values, inner), reduction=reduction), x.dtype)
    else:
        result = scatter_elements(op, x, axis, _spread(op, x, index, values, axis), values, reduction)
    return result if self.rank else op.Reshape(result, [])


@table("index_copy")
def index_copy(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    if self.rank and source.rank == 0:
        source = op.Expand(source, [1] * rank_of(op, self))
    return scatter_slices(op, self, dim, index, source)


@table("index_copy", since=24)
def index_copy_24(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor

    TensorScatter writes a range of indices, as a static key-value cache has them. ONNX Runtime writes in place where the caller
    binds one buffer to input and output, in 0.3 of the time of ScatterElements for one token, 0.03 for 128.
    """
    axis = axis_of(op, self, dim) if self.rank else 0
    start = start_of_range(op, index, (source.shape or ())[axis]) if axis and source.rank == self.rank else None
    if start is None:
        return index_copy(op, self, dim, index, source)
    return op.TensorScatter(self, source, op.Expand(start, vector(op, [size_at(op, self, 0)])), axis=axis)


@table("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(op: Builder, self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    x, flat = _flat(op, self, index)
    axis = axis_of(op, x, dim)
    sizes = [size_at(op, x, place) for place in range(rank_of(op, x))]
    if not isinstance(sizes[axis], int):  # no index of an empty axis is read; ONNX Runtime refuses them
        flat = sliced(op, flat, 0, 0, op.Mul(sizes[axis], size_at(op, flat, 0)))
    sizes[axis] = size_at(op, flat, 0)
    return scatter_slices(op, self, axis, flat, full_of(op, sizes, value, self.dtype))


@table("index_add")
def index_add(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        source = compute(op, "Mul", source, alpha)
    return scatter_slices(op, self, dim, index, source, "add")
