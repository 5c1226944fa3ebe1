"""Products by groups of rows, as mixtures of experts use them, and the histogram that counts the rows."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, dtype_of, rank_of
from onnxexp_aten.kernels import compare
from onnxexp_aten.layout import size_at, sliced, unsqueezed, vector

__all__: list[str] = []


@aten("_grouped_mm")
def grouped_mm(op: Builder, self: Tensor, mat2: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> Tensor:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"""
    if bias is not None:
        op.decline("torch computes no bias here either")
    if offs is None:
        product = op.MatMul(self, mat2)
    elif rank_of(op, self) == 2 and rank_of(op, mat2) == 3:
        product = _by_rows(op, self, mat2, offs)
    else:
        op.decline("groups along another axis than the rows of a matrix are not lowered")
    return op.cast(product, dtype_of(out_dtype, self.dtype))


@aten("transformers::grouped_mm_fallback")
def grouped_mm_fallback(op: Builder, input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _by_rows(op, input, weight, offs)


def _by_rows(op: Builder, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """(S, K) by (groups, K, N): the rows up to the first end by the first matrix, and so on; zeros after the last end."""
    groups = size_at(op, weights, 0)
    if not isinstance(groups, int):
        op.decline("the number of groups must be known at export")
    ends = op.cast(ends, torch.int64)
    bounds: list[Any] = [0, *(op.Slice(ends, [group], [group + 1], axes=[0]) for group in range(groups))]
    products = [
        op.MatMul(sliced(op, rows, 0, bounds[group], bounds[group + 1]), _matrix(op, weights, group)) for group in range(groups)
    ]
    rest = op.Sub(size_at(op, rows, 0), bounds[-1])
    zeros = op.ConstantOfShape(vector(op, [rest, size_at(op, weights, 2)]), value=torch.zeros(1, dtype=rows.dtype))
    return op.Concat(*products, zeros, axis=0)  # type: ignore[no-any-return]


def _matrix(op: Builder, weights: Tensor, group: int) -> Tensor:
    """One of the matrices; of a parameter a part of it, so that no run copies weights."""
    if weights.const is not None:
        return op.wrap_constant(weights.const[group], f"{weights.name}.{group}" if weights.name else None)
    return op.Gather(weights, group, axis=0)  # type: ignore[no-any-return]


@aten("histc")
def histc(op: Builder, self: Tensor, bins: int, min: Any, max: Any) -> Tensor:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    x = op.Reshape(self, [-1])
    if op.static(min) == op.static(max):
        op.decline("a range taken from the values is not lowered: give min and max")
    edges = torch.linspace(op.static(min), op.static(max), bins + 1, dtype=self.dtype)
    reached = op.Not(compare(op, "Less", unsqueezed(op, x, [1]), op.constant(edges[None, :-1])))
    beyond = compare(op, "Greater", unsqueezed(op, x, [1]), op.constant(edges[None, -1:]))
    counts = [op.ReduceSum(op.cast(each, self.dtype), axes=[0], keepdims=0) for each in (reached, beyond)]
    following = op.Concat(sliced(op, counts[0], 0, 1, bins), counts[1], axis=0) if bins > 1 else counts[1]
    return op.Sub(counts[0], following)  # type: ignore[no-any-return]
