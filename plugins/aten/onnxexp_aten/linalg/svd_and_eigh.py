"""Singular values and symmetric eigenvalues by Jacobi rotations.

Sources: Golub and Van Loan, "Matrix Computations", 8.5.6 (order of rotations) and 8.6.3 (one-sided Jacobi). The signs of
singular vectors and eigenvectors are not unique and may differ from LAPACK's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.linalg.factorization import Matrices, apply_q, householder, row_numbers
from onnxexp_aten.linalg.matrix_sizes import cut, diagonal_mask, dims, eye, numbers, parts, size, triangle_mask, zeros
from onnxexp_aten.support.tensor_sizes import with_shape
from onnxexp_aten.support.view_nodes import swapped

table = SymbolicTable("aten")

_SWEEPS = 12
"""Sweeps over all pairs of columns; convergence is quadratic."""


def _next(op: Builder, count: Dim) -> Tensor:
    """Return the next order of the columns, int64[count].

    The n-th columns of both halves form a pair. As in a round-robin tournament, the first column stays and the others move
    one place around a ring: to the right in the first half, to the left in the second. After count - 1 rounds every pair has
    met.
    """
    place, half, last = numbers(op, count), size(op, _half(count)), size(op, count - 1)
    inner = op.Where(op.Less(place, half), op.Sub(place, 1), op.Add(place, 1))
    ends = op.Where(op.Equal(place, last), op.Sub(half, 1), inner)
    return op.Where(op.Equal(place, 1), half, op.Where(op.Equal(place, 0), 0, ends))


def _half(count: Dim) -> Dim:
    return count // 2


def _even_size(count: Dim) -> Dim:
    return 2 * ((count + 1) // 2)


@dataclasses.dataclass(frozen=True)
class _Rotated:
    """Result of one-sided Jacobi: ``A V`` with orthogonal columns, and V.

    The columns, float64[batch, m, n], descend by size. The sizes are float64[batch, 1, n], V is float64[batch, n, n].
    """

    columns: Tensor
    sizes: Tensor
    turned: Tensor


def rotated_with_turns(op: Builder, a: Tensor) -> Tensor:
    """Apply one-sided Jacobi to float64[batch, m, n]; return ``A V`` above V.

    The columns are unsorted. An odd n gets one more column, of zeros.
    """
    batch, m, n = dims(a)
    both = op.Concat(_even(op, a), eye(op, batch, n, _even_size(n)), axis=1)
    return _turned(op, with_shape(both, [batch, m + n, _even_size(n)]), m)


def _rotated(op: Builder, a: Tensor) -> _Rotated:
    """Apply one-sided Jacobi to float64[batch, m, n], and sort the columns by size."""
    batch, m, n = dims(a)
    both = rotated_with_turns(op, a)
    sizes, order = op.TopK(_lengths(op, cut(op, both, 1, 0, m)), [size(op, n)], axis=2, outputs=2)
    chosen = op.cast(op.Equal(row_numbers(op, _even_size(n)), order), torch.float64)
    columns, turned = parts(op, with_shape(op.MatMul(both, chosen), [batch, m + n, n]), 1, m, n)
    return _Rotated(columns, with_shape(sizes, [batch, 1, n]), turned)


def singular_values(op: Builder, a: Tensor) -> Tensor:
    """Compute the singular values of float64[batch, m, n].

    The result is float64[batch, 1, min(m, n)].
    """
    batch, m, n = dims(a)
    if is_wide(m, n):
        return singular_values(op, swapped(op, a, 1, 2))
    lengths = _lengths(op, _turned(op, _even(op, a), m))
    count = SymbolicSize.smaller(m, n)
    return with_shape(op.TopK(lengths, [size(op, count)], axis=2, outputs=2)[0], [batch, 1, count])


def is_wide(rows: Dim, columns: Dim) -> bool:
    """Return whether a matrix is known to have more columns than rows."""
    return isinstance(rows, int) and isinstance(columns, int) and rows < columns


def _even(op: Builder, a: Tensor) -> Tensor:
    """Pad to an even number of columns; rotations leave a zero column alone."""
    batch, m, n = dims(a)
    if _even_size(n) == n:
        return a
    padded = op.Concat(a, zeros(op, batch, m, _even_size(n) - n), axis=2)
    return with_shape(padded, [batch, m, _even_size(n)])


def _lengths(op: Builder, columns: Tensor) -> Tensor:
    return op.ReduceL2(columns, axes=[1], keepdims=1)


def _turned(op: Builder, x: Tensor, m: Dim) -> Tensor:
    """Rotate pairs of columns until their first m rows are orthogonal.

    The number of columns is even.
    """
    batch, rows, count = dims(x)
    order, half = _next(op, count), _half(count)

    def body(number: Tensor, x: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        one, other = parts(op, with_shape(x, [batch, rows, count]), 2, half, half)
        left, right = (cut(op, with_shape(each, [batch, rows, half]), 1, 0, m) for each in (one, other))
        tangent, cosine = _angle(op, left, right)
        turned = (op.Sub(one, op.Mul(other, tangent)), op.Add(op.Mul(one, tangent), other))
        return None, [op.Gather(op.Concat(*(op.Mul(each, cosine) for each in turned), axis=2), order, axis=2)], []

    return with_shape(op.loop(_rounds(op, count), None, body, [x])[0], [batch, rows, count])


def _rounds(op: Builder, count: Dim) -> int | Tensor:
    between = size(op, count - 1)
    return _SWEEPS * between if isinstance(between, int) else op.Mul(between, _SWEEPS)


def _angle(op: Builder, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return tangent and cosine of the smaller angle that makes columns orthogonal."""
    alpha, beta = op.ReduceSumSquare(left, axes=[1], keepdims=1), op.ReduceSumSquare(right, axes=[1], keepdims=1)
    gamma = op.ReduceSum(op.Mul(left, right), axes=[1], keepdims=1)
    double = op.Div(op.Sub(beta, alpha), gamma)  # twice the cotangent of the doubled angle
    root = op.Sqrt(op.Add(op.Mul(double, double), 4.0))
    longer = op.Where(op.Less(double, 0.0), op.Sub(double, root), op.Add(double, root))
    tangent = op.Where(op.cast(gamma, torch.bool), op.Div(2.0, longer), op.constant(0.0, torch.float64))
    return tangent, op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), 1.0)))


# Singular values


def _singular(op: Builder, matrices: Matrices) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values and V of the thin decomposition.

    One of U and V is square and orthogonal. The other may have columns of zeros.
    """
    wide = is_wide(matrices.rows, matrices.columns)
    found = _rotated(op, swapped(op, matrices.x, 1, 2) if wide else matrices.x)
    count = SymbolicSize.smaller(matrices.rows, matrices.columns)
    columns, sizes = cut(op, found.columns, 2, 0, count), cut(op, found.sizes, 2, 0, count)
    divisor = op.Where(op.cast(sizes, torch.bool), sizes, op.constant(1.0, torch.float64))
    other = with_shape(op.Div(columns, divisor), dims(columns))
    return (found.turned, sizes, other) if wide else (other, sizes, found.turned)


def _orthonormal(op: Builder, x: Tensor, columns: Dim) -> Tensor:
    """Complete the columns of float64[batch, m, n] to an orthonormal set.

    Columns of zeros are replaced.
    """
    batch, m, n = dims(x)
    found = householder(op, x)
    diagonal = op.ReduceSum(op.Where(diagonal_mask(op, m, n), found.x, op.constant(0.0, torch.float64)), axes=[1], keepdims=1)
    signs = op.Where(op.Less(diagonal, 0.0), op.constant(-1.0, torch.float64), op.constant(1.0, torch.float64))
    if columns != n:
        signs = op.Concat(signs, zeros(op, batch, 1, columns - n, value=1.0), axis=2)
    return with_shape(op.Mul(apply_q(op, found, eye(op, batch, m, columns)), signs), [batch, m, columns])


@table("_linalg_svd")
def linalg_svd(
    op: Builder, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[Tensor, Tensor, Tensor]:
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None)
    -> (Tensor U, Tensor S, Tensor Vh)"""
    matrices = Matrices(op, A)
    m, n = matrices.rows, matrices.columns
    k = SymbolicSize.smaller(m, n)
    width, height = (m, n) if full_matrices else (k, k)
    if 0 in (m, n):
        nothing = op.Squeeze(matrices.unit(1, 0), axes=[len(matrices.batch)])
        return matrices.unit(m, m if full_matrices else 0), nothing, matrices.unit(n if full_matrices else 0, n)
    if not compute_uv:
        nothing = op.constant(torch.empty(0, dtype=A.dtype))
        return nothing, matrices.back(singular_values(op, matrices.x), k), nothing
    u, sizes, v = _singular(op, matrices)
    u, v = (u, _orthonormal(op, v, height)) if is_wide(m, n) else (_orthonormal(op, u, width), cut(op, v, 2, 0, height))
    return matrices.back(u, m, width), matrices.back(sizes, k), matrices.back(swapped(op, v, 1, 2), height, n)


@table("linalg_svd")
def thin_or_full_svd(op: Builder, A: Tensor, full_matrices: bool, driver: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    return linalg_svd(op, A, full_matrices, True, driver)


@table("linalg_svdvals")
def linalg_svdvals(op: Builder, A: Tensor, driver: str | None) -> Tensor:
    """linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return linalg_svd(op, A, False, False, driver)[1]


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
    """Return ascending eigenvalues, float64[batch, 1, n], and eigenvectors."""
    shifted, shift = shifted_positive(op, matrices, upper=upper)
    found = _rotated(op, shifted)
    return op.Sub(shift, found.sizes), found.turned


def shifted_positive(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Subtract the symmetric matrix from a multiple of the identity.

    The difference is positive semidefinite. Returns it and the multiple.
    """
    x, (batch, n, _) = matrices.x, dims(matrices.x)
    symmetric = op.Where(triangle_mask(op, n, n, upper=upper), x, swapped(op, x, 1, 2))
    shift = op.ReduceL2(symmetric, axes=[1, 2], keepdims=1)
    unit = op.Mul(shift, op.cast(diagonal_mask(op, n, n), torch.float64))
    return with_shape(op.Sub(unit, symmetric), [batch, n, n]), shift
