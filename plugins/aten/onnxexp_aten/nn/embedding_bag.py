"""Embedding bags: the sum, mean or maximum of each bag's rows."""

from __future__ import annotations

import dataclasses

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Value
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.passes.find_equal_bags import EQUAL_BAGS
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.tensor_sizes import known_size, size_at
from onnxexp_aten.support.view_nodes import END, reshaped, squeezed, unsqueezed

table = SymbolicTable("aten")

_SUM, _MEAN = 0, 1


@dataclasses.dataclass(frozen=True)
class _Bags:
    """Embeddings of the bags.

    Attributes:
        rows: ``[bags, n, width]`` where all bags have n indices, else ``[all, width]``.
        members: Which index counts in which bag, ``bool[bags, n]`` or ``bool[bags, all]``; None: all do.
        weights: Weights of the indices, in the shape of the indices.
        equal: Whether all bags have the same number of indices.
    """

    rows: Tensor
    members: Tensor | None
    weights: Tensor | None
    equal: bool


@table("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    op: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None = None,
) -> tuple[Tensor, None, None, None]:
    """embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse,
    Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)"""
    if padding_idx is not None and padding_idx < 0:
        own = op.node.op == "aten::embedding_bag.padding_idx" and weight.shape is not None
        padding_idx = padding_idx + known_size(weight, 0) if own else None
    bags = _bags(op, weight, indices, offsets, per_sample_weights, include_last_offset, padding_idx)
    if mode in (_SUM, _MEAN):
        return _added(op, bags, mode == _MEAN), None, None, None
    return _largest(op, bags), None, None, None


def _bags(
    op: Builder, weight: Tensor, indices: Tensor, offsets: Tensor, own: Tensor | None, include_last: bool, padding_idx: int | None
) -> _Bags:
    count = None if include_last else _equal_count(op, indices, offsets)
    if count is not None:
        sizes = [(offsets.shape or [-1])[0], count]
        indices = reshaped(op, indices, sizes)
        own = None if own is None else reshaped(op, own, sizes)
    counted = None if padding_idx is None else op.Not(op.Equal(indices, op.constant(padding_idx, indices.dtype)))
    rows = op.Gather(weight, indices, axis=0)
    if count is not None:
        return _Bags(rows, counted, own, equal=True)
    places = arange_of(op, 0, size_at(op, indices, 0), 1, indices.dtype)
    starts, ends = _bounds(op, indices, op.cast(offsets, indices.dtype), include_last)
    members = op.And(op.Less(places, unsqueezed(op, ends, [1])), op.Not(op.Less(places, unsqueezed(op, starts, [1]))))
    return _Bags(rows, members if counted is None else op.And(members, counted), own, equal=False)


def _equal_count(op: Builder, indices: Tensor, offsets: Tensor) -> int | None:
    """Return the number of indices in each bag where all have the same, else None.

    The pass `FindEqualBags` finds the number for two-dimensional indices.
    """
    if offsets.const is not None:
        total = indices.shape[0] if indices.shape is not None else None
        bags = offsets.const.numel()
        if not isinstance(total, int) or not bags or total % bags or not total:
            return None
        count = total // bags
        return count if torch.equal(offsets.const, torch.arange(0, total, count, dtype=offsets.const.dtype)) else None
    found: dict[Value, int] = op.context.plugin_data.get(EQUAL_BAGS, {})
    return found.get(op.node.outputs[0])


def _bounds(op: Builder, indices: Tensor, offsets: Tensor, include_last: bool) -> tuple[Tensor, Tensor]:
    """Return begin and end of each bag."""
    following = op.Slice(offsets, [1], [END], axes=[0])
    if include_last:
        return op.Slice(offsets, [0], [-1], axes=[0]), following
    total = op.cast(size_at(op, indices, 0), offsets.dtype)
    return offsets, op.Concat(following, op.Reshape(total, [1]), axis=0)


def _added(op: Builder, bags: _Bags, mean: bool) -> Tensor:
    rows, members, dtype = bags.rows, bags.members, bags.rows.dtype
    if members is None and bags.weights is None:
        return compute(op, "ReduceMean" if mean else "ReduceSum", rows, axes=[1], keepdims=0)
    factors = [*([] if members is None else [op.cast(members, dtype)]), *([] if bags.weights is None else [bags.weights])]
    shares = op.Mul(*factors) if len(factors) == 2 else factors[0]
    total = squeezed(op, op.MatMul(unsqueezed(op, shares, [1]), rows), [1]) if bags.equal else op.MatMul(shares, rows)
    if not mean:
        return total
    counts = op.ReduceSum(op.cast(members, dtype), axes=[1], keepdims=1)
    return op.Div(total, op.Max(counts, 1.0))


def _largest(op: Builder, bags: _Bags) -> Tensor:
    """Compute the maximum of each bag, and zero for an empty one."""
    rows, members = bags.rows, bags.members
    if members is None:
        return compute(op, "ReduceMax", rows, axes=[1], keepdims=0)
    lowest = float(torch.finfo(rows.dtype).min)
    wide = rows if bags.equal else unsqueezed(op, rows, [0])
    found = op.ReduceMax(op.Where(unsqueezed(op, members, [2]), wide, lowest), axes=[1], keepdims=0)
    some = op.ReduceMax(op.cast(members, torch.int32), axes=[1], keepdims=1)
    return op.Where(op.cast(some, torch.bool), found, 0.0)


@table("embedding_renorm")
def embedding_renorm(op: Builder, self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor"""
    places = op.Reshape(indices, [-1, 1])
    rows = op.GatherND(self, places)
    norms = op.ReduceSum(op.Pow(op.Abs(rows), norm_type), axes=[1], keepdims=1)
    norms = op.Pow(norms, 1.0 / norm_type) if norm_type != 2 else op.Sqrt(norms)
    factors = op.Where(op.Greater(norms, max_norm), op.Div(max_norm, op.Add(norms, 1e-7)), 1.0)
    return op.ScatterND(self, places, op.Mul(rows, factors))
