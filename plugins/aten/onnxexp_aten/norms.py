"""Vector norms."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, dtype_of, rank_of
from onnxexp_aten.elementwise import pow_
from onnxexp_aten.kernels import compute
from onnxexp_aten.layout import size_at
from onnxexp_aten.reduction import reduced

__all__ = ["vector_norm"]


@aten("linalg_vector_norm")
def linalg_vector_norm(op: Builder, self: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype_of(dtype, self.dtype)), ord, dim, keepdim)


@aten("norm.Scalar")
def norm(op: Builder, self: Tensor, p: Any) -> Tensor:
    """norm.Scalar(Tensor self, Scalar p=2) -> Tensor"""
    return vector_norm(op, self, p)


@aten("norm.ScalarOpt_dtype")
def norm_dtype(op: Builder, self: Tensor, p: Any, dtype: torch.dtype) -> Tensor:
    """norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype), p)


@aten("norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def norm_dim(op: Builder, self: Tensor, p: Any, dim: Any, keepdim: bool, dtype: torch.dtype | None = None) -> Tensor:
    """norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype_of(dtype, self.dtype)), p, dim, keepdim)


@aten("frobenius_norm.dim")
def frobenius_norm(op: Builder, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return vector_norm(op, self, 2, dim, keepdim)


def vector_norm(op: Builder, x: Tensor, p: Any = 2, dims: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm of a float tensor over some dimensions; p may be 0 or infinite."""
    order = 2.0 if p is None else float(op.static(p, "the order of a norm"))
    if order in (1, 2):
        return reduced(op, f"ReduceL{int(order)}", x, dims, keepdim)
    if order == 0:
        return reduced(op, "ReduceSum", op.cast(op.cast(x, torch.bool), x.dtype), dims, keepdim)
    size = compute(op, "Abs", x)
    if math.isinf(order):
        return reduced(op, "ReduceMax" if order > 0 else "ReduceMin", size, dims, keepdim)
    return pow_(op, reduced(op, "ReduceSum", pow_(op, size, order), dims, keepdim), 1 / order)


@aten("dist")
def dist(op: Builder, self: Tensor, other: Tensor, p: Any) -> Tensor:
    """dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    return vector_norm(op, compute(op, "Sub", self, other), p)


@aten("pdist", "_pdist_forward")
def pdist(op: Builder, self: Tensor, p: float) -> Tensor:
    """pdist(Tensor self, float p=2) -> Tensor: the distances of all pairs of rows"""
    rows = size_at(op, self, 0)
    if isinstance(rows, Tensor):
        raise op.error("the number of rows must be known at export")
    one, other = (op.Gather(self, op.constant(index), axis=0) for index in torch.triu_indices(rows, rows, 1))
    return vector_norm(op, compute(op, "Sub", one, other), p, [-1])


@aten("cdist", "_cdist_forward")
def cdist(op: Builder, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    rank = rank_of(op, x1)
    rows, columns = op.Unsqueeze(x1, axes=[rank - 1]), op.Unsqueeze(x2, axes=[rank_of(op, x2) - 2])
    return vector_norm(op, compute(op, "Sub", rows, columns), p, [-1])
