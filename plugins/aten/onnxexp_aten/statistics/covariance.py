"""Covariances and correlations: variables in rows, observations in columns."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor, warn
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.reduction.reductions import reduced, var
from onnxexp_aten.shape.diagonals import diagonal
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.type_promotion import promoted_dtype
from onnxexp_aten.support.view_nodes import swapped, unsqueezed

table = SymbolicTable("aten")


@table("cov")
def cov(op: Builder, self: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"""
    rank = rank_of(op, self)
    if rank == 2 and isinstance(size_at(op, self, 0), Tensor):
        warn("the exported covariances are right only where there are several variables; for one, eager's result has no axes")
    dtype = promoted_dtype(self, *(w for w in (aweights,) if w is not None), floating=True)
    if fweights is None and aweights is None and (rank < 2 or size_at(op, self, 0) == 1):
        return var(op, op.cast(self, dtype), None, correction, False)
    x = op.cast(op.Reshape(self, [1, -1]) if rank < 2 else self, dtype)
    result = _covariance(op, x, correction, fweights, aweights)
    return op.Reshape(result, []) if rank < 2 or size_at(op, self, 0) == 1 else result


def _covariance(op: Builder, x: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """Compute the covariances of the rows of a float matrix."""
    weights = [op.cast(weight, x.dtype) for weight in (fweights, aweights) if weight is not None]
    weight = weights[0] if len(weights) == 1 else compute(op, "Mul", *weights) if weights else None
    if weight is None:
        total: Any = op.cast(size_at(op, x, 1), x.dtype)
        centre = reduced(op, "ReduceMean", x, [1], True)
        lost: Any = correction
    else:
        total = reduced(op, "ReduceSum", weight)
        centre = compute(op, "Div", reduced(op, "ReduceSum", compute(op, "Mul", x, weight), [1], True), total)
        lost = correction
        if aweights is not None and correction:
            shares = compute(op, "Mul", weight, op.cast(aweights, x.dtype))
            lost = compute(op, "Mul", compute(op, "Div", reduced(op, "ReduceSum", shares), total), correction)
    divisor = extreme(op, "Max", compute(op, "Sub", total, lost), op.constant(0, x.dtype))
    apart = compute(op, "Sub", x, centre)
    weighed = apart if weight is None else compute(op, "Mul", apart, weight)
    return compute(op, "Div", op.MatMul(weighed, swapped(op, apart, 0, 1)), divisor)


@table("corrcoef")
def corrcoef(op: Builder, self: Tensor) -> Tensor:
    """corrcoef(Tensor self) -> Tensor"""
    covariances = cov(op, self, 1, None, None)
    if rank_of(op, covariances) == 0:
        return compute(op, "Div", covariances, covariances)
    deviations = compute(op, "Sqrt", diagonal(op, covariances, 0, 0, 1))
    by_rows = compute(op, "Div", covariances, unsqueezed(op, deviations, [1]))
    return compute(op, "Clip", compute(op, "Div", by_rows, deviations), -1, 1)
