"""Singular values and symmetric eigenvalues by Jacobi rotations.

Sources: Golub and Van Loan, "Matrix Computations", 8.5.6 (order of rotations) and 8.6.3 (one-sided Jacobi). The signs of
singular vectors and eigenvectors are not unique and may differ from LAPACK's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.factorization import Matrices, apply_q, dims, eye, householder
from onnxexp_aten.support.tensor_sizes import with_shape
from onnxexp_aten.support.view_nodes import swapped

__all__ = ["rotated_with_turns", "shifted_positive", "singular_values", "symmetric_eigen", "table"]

table = SymbolicTable("aten")

_SWEEPS = 12
"""Sweeps over all pairs of columns; convergence is quadratic."""


def _next(count: int) -> torch.Tensor:
    """Next order of the columns, int64[count].

    The n-th columns of both halves form a pair. As in a round-robin tournament, the first column stays and the others move
    one place around a ring. After count - 1 rounds every pair has met.
    """
    half = count // 2
    ring = [*range(1, half), *range(count - 1, half - 1, -1)]
    moved = dict(zip(ring, ring[-1:] + ring[:-1], strict=True))
    return torch.tensor([moved.get(place, 0) for place in range(count)], dtype=torch.int64)


@dataclasses.dataclass(frozen=True)
class _Rotated:
    """Result of one-sided Jacobi: ``A V`` with orthogonal columns, and V.

    The columns, float64[batch, m, n], descend by size. The sizes are float64[batch, 1, n], V is float64[batch, n, n].
    """

    columns: Tensor
    sizes: Tensor
    turned: Tensor


def rotated_with_turns(op: Builder, a: Tensor) -> Tensor:
    """One-sided Jacobi of float64[batch, m, n], unsorted: ``A V`` above V.

    An odd n gets one more column, of zeros.
    """
    batch, m, n = dims(a)
    return _turned(op, op.Concat(_even(op, a), eye(op, batch, n, n + n % 2), axis=1), m)


def _rotated(op: Builder, a: Tensor) -> _Rotated:
    """One-sided Jacobi of float64[batch, m, n], sorted by size."""
    batch, m, n = dims(a)
    both = rotated_with_turns(op, a)
    sizes, order = op.TopK(_lengths(op, op.Slice(both, [0], [m], [1])), [n], axis=2, outputs=2)
    chosen = op.cast(op.Equal(op.constant(torch.arange(n + n % 2)[None, :, None]), order), torch.float64)
    columns, turned = op.Split(op.MatMul(both, chosen), [m, n], axis=1, outputs=2)
    return _Rotated(with_shape(columns, [batch, m, n]), with_shape(sizes, [batch, 1, n]), with_shape(turned, [batch, n, n]))


def singular_values(op: Builder, a: Tensor) -> Tensor:
    """Singular values of float64[batch, m, n], float64[batch, 1, min(m, n)]."""
    batch, m, n = dims(a)
    if m < n:
        return singular_values(op, swapped(op, a, 1, 2))
    lengths = _lengths(op, _turned(op, _even(op, a), m))
    return with_shape(op.TopK(lengths, [n], axis=2, outputs=2)[0], [batch, 1, n])


def _even(op: Builder, a: Tensor) -> Tensor:
    """Pad to an even number of columns; rotations leave a zero column alone."""
    batch, m, n = dims(a)
    return op.Concat(a, op.constant(torch.zeros(batch, m, 1, dtype=torch.float64)), axis=2) if n % 2 else a


def _lengths(op: Builder, columns: Tensor) -> Tensor:
    return op.ReduceL2(columns, axes=[1], keepdims=1)


def _turned(op: Builder, x: Tensor, m: int) -> Tensor:
    """Rotate pairs of columns until their first m rows are orthogonal.

    The number of columns is even.
    """
    _, rows, count = dims(x)
    order = op.constant(_next(count))
    halves = [count // 2, count // 2]

    def body(number: Tensor, x: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        one, other = op.Split(x, halves, axis=2, outputs=2)
        left, right = (one, other) if m == rows else (op.Slice(half, [0], [m], [1]) for half in (one, other))
        tangent, cosine = _angle(op, left, right)
        turned = (op.Sub(one, op.Mul(other, tangent)), op.Add(op.Mul(one, tangent), other))
        return None, [op.Gather(op.Concat(*(op.Mul(half, cosine) for half in turned), axis=2), order, axis=2)], []

    return op.loop(_SWEEPS * (count - 1), None, body, [x])[0]


def _angle(op: Builder, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Tangent and cosine of the smaller angle that makes columns orthogonal."""
    alpha, beta = op.ReduceSumSquare(left, axes=[1], keepdims=1), op.ReduceSumSquare(right, axes=[1], keepdims=1)
    gamma = op.ReduceSum(op.Mul(left, right), axes=[1], keepdims=1)
    double = op.Div(op.Sub(beta, alpha), gamma)  # twice the cotangent of the doubled angle
    root = op.Sqrt(op.Add(op.Mul(double, double), 4.0))
    longer = op.Where(op.Less(double, 0.0), op.Sub(double, root), op.Add(double, root))
    tangent = op.Where(op.cast(gamma, torch.bool), op.Div(2.0, longer), op.constant(0.0, torch.float64))
    return tangent, op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), 1.0)))


# Singular values


def _singular(op: Builder, matrices: Matrices) -> tuple[Tensor, Tensor, Tensor]:
    """U, singular values and V of the thin decomposition.

    One of U and V is square and orthogonal. The other may have columns of zeros.
    """
    tall = matrices.rows >= matrices.columns
    found = _rotated(op, matrices.x if tall else swapped(op, matrices.x, 1, 2))
    divisor = op.Where(op.cast(found.sizes, torch.bool), found.sizes, op.constant(1.0, torch.float64))
    other = with_shape(op.Div(found.columns, divisor), dims(found.columns))
    return (other, found.sizes, found.turned) if tall else (found.turned, found.sizes, other)


def _orthonormal(op: Builder, x: Tensor, columns: int) -> Tensor:
    """Complete the columns of float64[batch, m, n] to an orthonormal set.

    Columns of zeros are replaced.
    """
    batch, m, n = dims(x)
    found = householder(op, x)
    mask = op.constant(torch.eye(m, n, dtype=torch.bool))
    diagonal = op.ReduceSum(op.Where(mask, found.x, op.constant(0.0, torch.float64)), axes=[1], keepdims=1)
    signs = op.Where(op.Less(diagonal, 0.0), op.constant(-1.0, torch.float64), op.constant(1.0, torch.float64))
    if columns > n:
        signs = op.Concat(signs, op.constant(torch.ones(batch, 1, columns - n, dtype=torch.float64)), axis=2)
    return op.Mul(apply_q(op, found, eye(op, batch, m, columns)), signs)


@table("_linalg_svd")
def linalg_svd(
    op: Builder, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[Tensor, Tensor, Tensor]:
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None)
    -> (Tensor U, Tensor S, Tensor Vh)"""
    matrices = Matrices(op, A)
    m, n = matrices.rows, matrices.columns
    k = min(m, n)
    width, height = (m, n) if full_matrices else (k, k)
    if k == 0:
        return _unit(op, matrices, m, width), _unit(op, matrices, 0), _unit(op, matrices, height, n)
    if not compute_uv:
        nothing = op.constant(torch.empty(0, dtype=A.dtype))
        return nothing, matrices.back(singular_values(op, matrices.x), k), nothing
    u, sizes, v = _singular(op, matrices)
    u, v = (u, _orthonormal(op, v, height)) if m < n else (_orthonormal(op, u, width), v)
    return matrices.back(u, m, width), matrices.back(sizes, k), matrices.back(swapped(op, v, 1, 2), height, n)


@table("linalg_svd")
def thin_or_full_svd(op: Builder, A: Tensor, full_matrices: bool, driver: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    return linalg_svd(op, A, full_matrices, True, driver)


@table("linalg_svdvals")
def linalg_svdvals(op: Builder, A: Tensor, driver: str | None) -> Tensor:
    """linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return linalg_svd(op, A, False, False, driver)[1]


def _unit(op: Builder, matrices: Matrices, *sizes: int) -> Tensor:
    """Constant part of an empty matrix's decomposition, for each batch.

    Two sizes give a part of the identity matrix, one size an empty vector.
    """
    part = torch.eye(*sizes, dtype=matrices.dtype) if len(sizes) == 2 else torch.empty(sizes, dtype=matrices.dtype)
    return op.constant(part.expand(*matrices.batch, *sizes).contiguous())


@table("svd")
def svd(op: Builder, self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    """svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    if not compute_uv:
        op.decline("compute_uv=False is not supported")
    u, sizes, vh = linalg_svd(op, self, not some, True, None)
    return u, sizes, swapped(op, vh, -2, -1)


# Eigenvalues of symmetric matrices


@table("_linalg_eigh")
def linalg_eigh(op: Builder, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Tensor, Tensor]:
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    matrices = Matrices(op, A)
    values, vectors = symmetric_eigen(op, matrices, upper=UPLO.upper() == "U")
    n = matrices.rows
    vectors = matrices.back(vectors, n, n) if compute_v else op.constant(torch.empty(0, dtype=A.dtype))
    return matrices.back(values, n), vectors


@table("linalg_eigh")
def values_and_vectors(op: Builder, self: Tensor, UPLO: str) -> tuple[Tensor, Tensor]:
    """linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)"""
    return linalg_eigh(op, self, UPLO, True)


@table("linalg_eigvalsh")
def linalg_eigvalsh(op: Builder, self: Tensor, UPLO: str) -> Tensor:
    """linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor"""
    matrices = Matrices(op, self)
    shifted, shift = shifted_positive(op, matrices, upper=UPLO.upper() == "U")
    return matrices.back(op.Sub(shift, singular_values(op, shifted)), matrices.rows)


def symmetric_eigen(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues, float64[batch, 1, n], and eigenvectors."""
    shifted, shift = shifted_positive(op, matrices, upper=upper)
    found = _rotated(op, shifted)
    return op.Sub(shift, found.sizes), found.turned


def shifted_positive(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Subtract the symmetric matrix from a multiple of the identity.

    The difference is positive semidefinite. Returns it and the multiple.
    """
    x, (batch, n, _) = matrices.x, dims(matrices.x)
    ones = torch.ones(n, n, dtype=torch.bool)
    symmetric = op.Where(op.constant(ones.triu() if upper else ones.tril()), x, swapped(op, x, 1, 2))
    shift = op.ReduceL2(symmetric, axes=[1, 2], keepdims=1)
    unit = op.Mul(shift, op.constant(torch.eye(n, dtype=torch.float64)))
    return with_shape(op.Sub(unit, symmetric), [batch, n, n]), shift
