"""Cholesky and QR factorizations, and solutions by them."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.linalg.factorization import Matrices, Reflected, apply_q, cholesky, eager_if_empty, householder, reflectors
from onnxexp_aten.linalg.matrix_sizes import cut, diagonal_mask, eye, shaped, triangle, zeros
from onnxexp_aten.linalg.solve_and_lu import linalg_solve_triangular
from onnxexp_aten.support.tensor_sizes import with_shape
from onnxexp_aten.support.view_nodes import swapped

table = SymbolicTable("aten")

# Cholesky


@table("cholesky")
def cholesky_(op: Builder, self: Tensor, upper: bool) -> Tensor:
    """cholesky(Tensor self, bool upper=False) -> Tensor"""
    return linalg_cholesky_ex(op, self, upper, False)[0]


@table("linalg_cholesky")
@eager_if_empty
def linalg_cholesky(op: Builder, self: Tensor, upper: bool) -> Tensor:
    """linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor"""
    return linalg_cholesky_ex(op, self, upper, False)[0]


@table("linalg_cholesky_ex")
@eager_if_empty
def linalg_cholesky_ex(op: Builder, self: Tensor, upper: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    matrices = Matrices(op, self)
    n = matrices.rows
    found = cholesky(op, swapped(op, matrices.x, 1, 2) if upper else matrices.x)
    return matrices.back(swapped(op, found, 1, 2) if upper else found, n, n), matrices.info()


@table("cholesky_solve")
def cholesky_solve(op: Builder, self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    factor, other = input2, swapped(op, input2, -2, -1)
    lower, raised = (other, factor) if upper else (factor, other)
    below = linalg_solve_triangular(op, lower, self, False, True, False)
    return linalg_solve_triangular(op, raised, below, True, True, False)


@table("cholesky_inverse")
def cholesky_inverse(op: Builder, self: Tensor, upper: bool) -> Tensor:
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    matrices = Matrices(op, self)
    n = matrices.rows
    return cholesky_solve(op, matrices.back(eye(op, matrices.count, n, n), n, n), self, upper)


# QR


@table("linalg_qr")
def linalg_qr(op: Builder, A: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)"""
    matrices = Matrices(op, A)
    m, n = matrices.rows, matrices.columns
    rows = m if mode == "complete" else SymbolicSize.smaller(m, n)
    if 0 in (m, n):
        return matrices.unit(m, rows), matrices.unit(rows, n)
    found = householder(op, matrices.x)
    top = cut(op, found.x, 1, 0, rows)
    right = matrices.back(triangle(op, top, upper=True), rows, n)
    if mode == "r":
        return op.constant(torch.empty(0, dtype=A.dtype)), right
    return matrices.back(apply_q(op, found, eye(op, matrices.count, m, rows)), m, rows), right


@table("qr")
def qr(op: Builder, self: Tensor, some: bool) -> tuple[Tensor, Tensor]:
    """qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)"""
    return linalg_qr(op, self, "reduced" if some else "complete")


@table("geqrf")
def geqrf(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    matrices = Matrices(op, self)
    m, n = matrices.rows, matrices.columns
    count = SymbolicSize.smaller(m, n)
    found = householder(op, matrices.x)
    vectors = shaped(op, op.Transpose(found.vectors, perm=[1, 2, 0, 3]), [matrices.count, m, count])
    if count != n:
        vectors = op.Concat(vectors, zeros(op, matrices.count, m, n - count), axis=2)
    packed = triangle(op, with_shape(vectors, [matrices.count, m, n]), upper=False, beside=1, other=found.x)
    own = op.Unsqueeze(diagonal_mask(op, count, m), axes=[1, 2])  # positions of the ones in the vectors
    factors = op.ReduceSum(op.Where(own, found.rows, op.constant(0.0, torch.float64)), axes=[3], keepdims=1)
    taus = op.Transpose(op.Neg(factors), perm=[1, 0, 2, 3])
    return matrices.back(packed, m, n), matrices.back(taus, count)


def _reflectors(op: Builder, packed: Tensor, tau: Tensor) -> Reflected:
    assert tau.shape is not None
    taus = [math.prod(tau.shape[:-1]), tau.shape[-1]]
    return reflectors(op, packed, shaped(op, op.cast(tau, torch.float64), taus))


@table("linalg_householder_product")
def linalg_householder_product(op: Builder, input: Tensor, tau: Tensor) -> Tensor:
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    matrices = Matrices(op, input)
    m, n = matrices.rows, matrices.columns
    start = eye(op, matrices.count, m, n)
    if tau.shape is not None and tau.shape[-1] == 0:
        return matrices.back(start, m, n)
    return matrices.back(apply_q(op, _reflectors(op, matrices.x, tau), start), m, n)


@table("ormqr")
def ormqr(op: Builder, self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    """ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if not left:
        turned = ormqr(op, self, input2, swapped(op, input3, -2, -1), True, not transpose)
        return swapped(op, turned, -2, -1)
    matrices, other = Matrices(op, self), Matrices(op, input3)
    result = apply_q(op, _reflectors(op, matrices.x, input2), other.x, transposed=transpose)
    return other.back(result, other.rows, other.columns)
