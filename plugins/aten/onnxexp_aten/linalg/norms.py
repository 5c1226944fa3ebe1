"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.factorization import Matrices, eager_if_empty
from onnxexp_aten.linalg.solve_and_lu import linalg_inv
from onnxexp_aten.linalg.svd_and_eigh import singular_values
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison_and_bitwise import relate
from onnxexp_aten.math.powers import pow_
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.read_arguments import axis_of, rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.type_promotion import dtype_of, promote
from onnxexp_aten.support.view_nodes import permuted, unsqueezed

table = SymbolicTable("aten")


@table("linalg_vector_norm")
def linalg_vector_norm(op: Builder, self: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype_of(dtype, self.dtype)), ord, dim, keepdim)


@table("norm.Scalar")
def norm(op: Builder, self: Tensor, p: Any) -> Tensor:
    """norm.Scalar(Tensor self, Scalar p=2) -> Tensor"""
    return vector_norm(op, self, p)


@table("norm.ScalarOpt_dtype")
def norm_dtype(op: Builder, self: Tensor, p: Any, dtype: torch.dtype) -> Tensor:
    """norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype), p)


@table("norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype")
def norm_dim(op: Builder, self: Tensor, p: Any, dim: Any, keepdim: bool, dtype: torch.dtype | None = None) -> Tensor:
    """norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return vector_norm(op, op.cast(self, dtype_of(dtype, self.dtype)), p, dim, keepdim)


@table("frobenius_norm.dim")
def frobenius_norm(op: Builder, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return vector_norm(op, self, 2, dim, keepdim)


@table("linalg_norm", "linalg_norm.ord_str")
@eager_if_empty
def linalg_norm(op: Builder, self: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    dims = list(range(rank_of(op, self))) if dim is None else dim if isinstance(dim, list) else [dim]
    if ord is None or len(dims) == 1:
        return linalg_vector_norm(op, self, 2 if ord is None else ord, dim, keepdim, dtype)
    return linalg_matrix_norm(op, self, ord, dims, keepdim, dtype)


@table("linalg_matrix_norm", "linalg_matrix_norm.str_ord")
@eager_if_empty
def linalg_matrix_norm(op: Builder, self: Tensor, ord: Any, dim: list[int], keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    x, ord = op.cast(self, dtype_of(dtype, self.dtype)), op.static(ord, "the order of a norm")
    rows, columns = (axis % rank_of(op, x) for axis in dim)
    if ord == "fro":
        return vector_norm(op, x, 2, dim, keepdim)
    chosen = "ReduceMin" if isinstance(ord, (int, float)) and ord < 0 else "ReduceMax"
    if ord in ("nuc", 2, -2):
        others = [axis for axis in range(rank_of(op, x)) if axis not in (rows, columns)]
        matrices = Matrices(op, permuted(op, x, [*others, rows, columns]))
        sizes = singular_values(op, matrices.x)
        norms = matrices.back(op.call("", "ReduceSum" if ord == "nuc" else chosen, sizes, axes=[1, 2], keepdims=0))
        return unsqueezed(op, norms, [rows, columns]) if keepdim else norms
    added, left = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(op, x, 1, [added], True)
    return reduced(op, chosen, sums, [added, left], keepdim)


@table("linalg_cond", "linalg_cond.p_str")
@eager_if_empty
def linalg_cond(op: Builder, self: Tensor, p: Any) -> Tensor:
    """linalg_cond(Tensor self, Scalar? p=None) -> Tensor"""
    if p not in (None, 2, -2):
        inverse = linalg_inv(op, self)
        return compute(op, "Mul", *(linalg_matrix_norm(op, x, p, [-2, -1], False, None) for x in (self, inverse)))
    matrices = Matrices(op, self)
    sizes = singular_values(op, matrices.x)
    ends = [op.Gather(sizes, op.constant(place), axis=2) for place in ([-1, 0] if p == -2 else [0, -1])]
    return matrices.back(op.Div(*ends))


def vector_norm(op: Builder, x: Tensor, p: Any = 2, dims: Any = None, keepdim: bool = False) -> Tensor:
    """Compute the p-norm of a float tensor over some dimensions.

    p may be 0 or infinite.
    """
    if not op.is_static(p):
        return _norm_of_computed_order(op, x, p, dims, keepdim)
    order = 2.0 if p is None else float(op.static(p))
    if order in (1, 2):
        return reduced(op, f"ReduceL{int(order)}", x, dims, keepdim)
    if order == 0:
        return reduced(op, "ReduceSum", op.cast(op.cast(x, torch.bool), x.dtype), dims, keepdim)
    size = compute(op, "Abs", x)
    if math.isinf(order):
        return reduced(op, "ReduceMax" if order > 0 else "ReduceMin", size, dims, keepdim)
    return pow_(op, reduced(op, "ReduceSum", pow_(op, size, order), dims, keepdim), 1 / order)


def _norm_of_computed_order(op: Builder, x: Tensor, p: Any, dims: Any, keepdim: bool) -> Tensor:
    """Compute the p-norm for a run-time p, with all of the special cases."""
    order = op.cast(p, x.dtype)
    powers = reduced(op, "ReduceSum", pow_(op, compute(op, "Abs", x), order), dims, keepdim)
    result = pow_(op, powers, compute(op, "Reciprocal", order))
    for special in (0.0, math.inf, -math.inf):
        result = select(op, compare(op, "Equal", order, special), vector_norm(op, x, special, dims, keepdim), result)
    return result


@table("renorm")
def renorm(op: Builder, self: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    """renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor; norms of half precision are computed in float32"""
    if self.dtype.is_complex:
        op.decline("complex numbers are not supported")
    own, inner = axis_of(op, self, dim), torch.float64 if self.dtype == torch.float64 else torch.float32
    others = [axis for axis in range(rank_of(op, self)) if axis != own]
    norms, most = vector_norm(op, op.cast(self, inner), p, others, True), op.cast(maxnorm, inner)
    factors = compute(op, "Div", most, compute(op, "Add", norms, 1e-7))
    factors = select(op, relate(op, "Greater", norms, most), factors, op.constant(1.0, inner))
    return compute(op, "Mul", self, op.cast(factors, self.dtype))


@table("dist")
def dist(op: Builder, self: Tensor, other: Tensor, p: Any) -> Tensor:
    """dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    return vector_norm(op, compute(op, "Sub", *promote(op, self, other)), p)


@table("pdist", "_pdist_forward")
def pdist(op: Builder, self: Tensor, p: float) -> Tensor:
    """pdist(Tensor self, float p=2) -> Tensor; the distances of all pairs of rows"""
    rows = size_at(op, self, 0)
    if isinstance(rows, Tensor):
        raise op.error("the number of rows must be known at export")
    one, other = (op.Gather(self, op.constant(index), axis=0) for index in torch.triu_indices(rows, rows, 1))
    return vector_norm(op, compute(op, "Sub", one, other), p, [-1])


@table("cdist", "_cdist_forward")
def cdist(op: Builder, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    rank = rank_of(op, x1)
    rows, columns = op.Unsqueeze(x1, axes=[rank - 1]), op.Unsqueeze(x2, axes=[rank_of(op, x2) - 2])
    return vector_norm(op, compute(op, "Sub", rows, columns), p, [-1])
