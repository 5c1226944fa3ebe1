"""Grouped matrix products of mixtures of experts."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector
from onnxexp_aten.support.type_promotion import dtype_of
from onnxexp_aten.support.view_nodes import sliced

table = SymbolicTable("aten")


@table("_grouped_mm")
def grouped_mm(op: Builder, self: Tensor, mat2: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> Tensor:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"""
    if bias is not None:
        op.decline("a bias is not supported, nor does torch compute one")
    if offs is None:
        product = op.MatMul(self, mat2)
    elif rank_of(op, self) == 2 and rank_of(op, mat2) == 3:
        product = _by_rows(op, self, mat2, offs)
    else:
        op.decline("only groups of rows of a matrix are supported")
    return op.cast(product, dtype_of(out_dtype, self.dtype))


@table("transformers::grouped_mm_fallback")
def grouped_mm_fallback(op: Builder, input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _by_rows(op, input, weight, offs)


def _by_rows(op: Builder, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Multiply each group of rows by its own matrix, (S, K) by (groups, K, N).

    Rows after the last end are zero in the result.
    """
    groups = size_at(op, weights, 0)
    if not isinstance(groups, int):
        op.decline("the number of groups must be known at export")
    ends = op.cast(ends, torch.int64)
    bounds: list[Any] = [0, *(op.Slice(ends, [group], [group + 1], axes=[0]) for group in range(groups))]
    products = [
        op.MatMul(sliced(op, rows, 0, bounds[group], bounds[group + 1]), _matrix(op, weights, group)) for group in range(groups)
    ]
    rest = extreme(op, "Max", op.Sub(size_at(op, rows, 0), bounds[-1]), op.constant(0))
    zeros = op.ConstantOfShape(vector(op, [rest, size_at(op, weights, 2)]), value=torch.zeros(1, dtype=rows.dtype))
    return op.Concat(*products, zeros, axis=0)


def _matrix(op: Builder, weights: Tensor, group: int) -> Tensor:
    """Return one of the matrices; a parameter is sliced at export, not at run time."""
    if weights.const is not None:
        return op.wrap_constant(weights.const[group], f"{weights.name}.{group}" if weights.name else None)
    return op.Gather(weights, group, axis=0)
