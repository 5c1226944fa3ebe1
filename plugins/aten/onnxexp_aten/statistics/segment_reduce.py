"""Reductions of consecutive segments."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import extreme, select
from onnxexp_aten.math.comparison_and_bitwise import relate
from onnxexp_aten.reduction.cumulative import running_sum
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import END, unsqueezed

table = SymbolicTable("aten")


_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


_REDUCERS = {"sum": "ReduceSum", "mean": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


_COMBINE = {"sum": "Add", "mean": "Add", "prod": "Mul", "max": "Max", "min": "Min"}


@table("segment_reduce")
def segment_reduce(
    op: Builder,
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: Any,
) -> Tensor:
    """segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0,
    bool unsafe=False, Scalar? initial=None) -> Tensor"""
    starts, ends = _segments(op, lengths, offsets)
    rank, first = rank_of(op, data), rank_of(op, starts) - 1
    place = arange_of(op, 0, size_at(op, data, first), 1, torch.int64)
    inside = op.And(
        relate(op, "LessOrEqual", unsqueezed(op, starts, [first + 1]), place),
        relate(op, "Less", place, unsqueezed(op, ends, [first + 1])),
    )  # [..., segments, elements]
    mask = unsqueezed(op, inside, range(first + 2, rank + 1))
    neutral = op.constant(_NEUTRAL[reduce], data.dtype)
    kept = select(op, mask, unsqueezed(op, data, [first]), neutral)
    result = compute(op, _REDUCERS[reduce], kept, axes=[first + 1], keepdims=0)
    if initial is not None:
        start = op.cast(initial, data.dtype)
        combine = _COMBINE[reduce]
        result = extreme(op, combine, result, start) if reduce in ("max", "min") else compute(op, combine, result, start)
    if reduce != "mean":
        return result
    count = unsqueezed(op, op.cast(op.Sub(ends, starts), data.dtype), range(first + 1, rank))
    if initial is None:
        return compute(op, "Div", result, count)
    return select(op, op.cast(count, torch.bool), compute(op, "Div", result, count), op.cast(initial, data.dtype))


def _segments(op: Builder, lengths: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the begins and ends of the segments, int64."""
    if lengths is not None:
        wide, last = op.cast(lengths, torch.int64), rank_of(op, lengths) - 1
        ends = running_sum(op, wide, last)
        return op.Sub(ends, wide), ends
    assert offsets is not None
    last, wide = rank_of(op, offsets) - 1, op.cast(offsets, torch.int64)
    return op.Slice(wide, [0], [-1], [last]), op.Slice(wide, [1], [END], [last])
