"""Determinants, inverses, linear equations and LU factorizations."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.linalg.factorization import (
    Factors,
    Matrices,
    eager_if_empty,
    exchange_rows,
    lu,
    row_numbers,
    scan_numbers,
    solve_by_elimination,
    substitute,
    success,
)
from onnxexp_aten.linalg.matmul import product as matrix_product
from onnxexp_aten.linalg.matrix_sizes import (
    broadcast,
    cut,
    diagonal_mask,
    dims,
    eye,
    matrix_sizes,
    numbers,
    shaped,
    size,
    triangle,
)
from onnxexp_aten.support.tensor_sizes import vector, with_shape
from onnxexp_aten.support.view_nodes import permuted, squeezed, swapped, unsqueezed

table = SymbolicTable("aten")


def _lapack_pivots(op: Builder, matrices: Matrices, found: Factors) -> Tensor:
    counted = op.cast(op.Add(found.pivots, 1), torch.int32)
    together = counted if matrices.count == 1 else op.Transpose(counted, perm=[1, 0, 2, 3])
    return matrices.back(together, SymbolicSize.smaller(matrices.rows, matrices.columns))


# Determinants


def _determinant(op: Builder, found: Factors) -> tuple[Tensor, Tensor]:
    """Return the diagonal of U among ones, and the sign of the permutation.

    They are float64[batch, n, n] and float64[batch].
    """
    n = dims(found.factors)[1]
    diagonal = op.Where(diagonal_mask(op, n, n), found.factors, op.constant(1.0, torch.float64))
    stayed = op.Equal(found.pivots, op.Unsqueeze(numbers(op, n), axes=[1, 2, 3]))
    signs = op.Where(stayed, op.constant(1.0, torch.float64), op.constant(-1.0, torch.float64))
    return diagonal, op.ReduceProd(signs, axes=[0, 2, 3], keepdims=0)


def _product(op: Builder, diagonal: Tensor, sign: Tensor) -> Tensor:
    return op.Mul(op.ReduceProd(diagonal, axes=[1, 2], keepdims=0), sign)


def _sign_and_log(op: Builder, found: Factors) -> tuple[Tensor, Tensor]:
    diagonal, sign = _determinant(op, found)
    size = op.ReduceSum(op.Log(op.Abs(diagonal)), axes=[1, 2], keepdims=0)
    return _product(op, op.Sign(diagonal), sign), size


@table("_linalg_det")
@eager_if_empty
def linalg_det(op: Builder, A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x)[0]
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    return matrices.back(_product(op, *_determinant(op, found))), factors, _lapack_pivots(op, matrices, found)


@table("linalg_det", "det")
@eager_if_empty
def det(op: Builder, A: Tensor) -> Tensor:
    """linalg_det(Tensor A) -> Tensor"""
    matrices = Matrices(op, A)
    return matrices.back(_product(op, *_determinant(op, lu(op, matrices.x)[0])))


@table("_linalg_slogdet")
@eager_if_empty
def linalg_slogdet(op: Builder, A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x)[0]
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    sign, size = map(matrices.back, _sign_and_log(op, found))
    return sign, size, factors, _lapack_pivots(op, matrices, found)


@table("linalg_slogdet", "slogdet")
@eager_if_empty
def slogdet(op: Builder, A: Tensor) -> tuple[Tensor, Tensor]:
    """linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)"""
    matrices = Matrices(op, A)
    sign, size = map(matrices.back, _sign_and_log(op, lu(op, matrices.x)[0]))
    return sign, size


@table("logdet")
@eager_if_empty
def logdet(op: Builder, self: Tensor) -> Tensor:
    """logdet(Tensor self) -> Tensor"""
    matrices = Matrices(op, self)
    sign, size = _sign_and_log(op, lu(op, matrices.x)[0])
    return matrices.back(op.Where(op.Less(sign, 0.0), op.constant(math.nan, torch.float64), size))


# Equations


@table("linalg_inv_ex")
@eager_if_empty
def linalg_inv_ex(op: Builder, A: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    matrices = Matrices(op, A)
    n = matrices.rows
    return matrices.back(solve_by_elimination(op, matrices.x, eye(op, matrices.count, n, n)), n, n), matrices.info()


@table("linalg_inv", "inverse")
@eager_if_empty
def linalg_inv(op: Builder, A: Tensor) -> Tensor:
    """linalg_inv(Tensor A) -> Tensor"""
    return linalg_inv_ex(op, A, False)[0]


@table("linalg_matrix_power", "matrix_power")
@eager_if_empty
def linalg_matrix_power(op: Builder, self: Tensor, n: int) -> Tensor:
    """linalg_matrix_power(Tensor self, int n) -> Tensor"""
    if self.dtype.is_complex or (n == 0 and self.rank != 2):
        op.decline("complex numbers and the power 0 of a batch are not supported")
    if n == 0:
        return op.cast(diagonal_mask(op, *matrix_sizes(op, self)), self.dtype)
    power, rest = linalg_inv(op, self) if n < 0 else self, abs(n)
    result = power if rest % 2 else None
    while rest := rest // 2:
        power = matrix_product(op, power, power)
        if rest % 2:
            result = power if result is None else matrix_product(op, result, power)
    assert result is not None
    return result


@table("linalg_tensorinv")
@eager_if_empty
def linalg_tensorinv(op: Builder, self: Tensor, ind: int) -> Tensor:
    """linalg_tensorinv(Tensor self, int ind=2) -> Tensor"""
    sizes = matrix_sizes(op, self)
    n = math.prod(sizes[ind:])
    return shaped(op, linalg_inv(op, shaped(op, self, [n, n])), [*sizes[ind:], *sizes[:ind]])


def _is_vector(A: Tensor, B: Tensor) -> bool:
    """Return whether torch.linalg.solve treats B as a batch of vectors."""
    assert A.shape is not None and B.shape is not None
    return len(B.shape) == 1 or (len(A.shape) - 1 == len(B.shape) and A.shape[:-1] == B.shape)


@table("_linalg_solve_ex")
@eager_if_empty
def linalg_solve_and_factors(
    op: Builder, A: Tensor, B: Tensor, left: bool, check_errors: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)
    -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""
    return *linalg_solve_ex(op, A, B, left, check_errors)[:1], *linalg_lu_factor_ex(op, A, True, check_errors)


@table("linalg_solve_ex")
@eager_if_empty
def linalg_solve_ex(op: Builder, A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)"""
    assert A.shape is not None
    return linalg_solve(op, A, B, left), success(op, A.shape[:-2])


@table("linalg_solve")
@eager_if_empty
def linalg_solve(op: Builder, A: Tensor, B: Tensor, left: bool) -> Tensor:
    """linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"""
    if not _is_vector(A, B):
        return _solution(op, A, B, left=left)
    axis = len(B.shape or ())
    return squeezed(op, _solution(op, A, unsqueezed(op, B, [axis]), left=left), [axis])


def _solution(op: Builder, A: Tensor, B: Tensor, *, left: bool) -> Tensor:
    """Compute ``A^-1 B``, or ``B A^-1``; batch sizes broadcast."""
    if not left:
        return swapped(op, _solution(op, swapped(op, A, -2, -1), swapped(op, B, -2, -1), left=True), -2, -1)
    matrices = Matrices(op, _spread(op, A, B))
    return matrices.back(solve_by_elimination(op, matrices.x, matrices.flat(B)), *_last_sizes(B))


def _spread(op: Builder, A: Tensor, B: Tensor) -> Tensor:
    """Expand A to the common batch sizes of A and B."""
    own, others = matrix_sizes(op, A), matrix_sizes(op, B)
    batch = broadcast(own[:-2], others[:-2])
    if batch == own[:-2]:
        return A
    return with_shape(op.Expand(A, vector(op, [*(size(op, dim) for dim in batch), 1, 1])), [*batch, *own[-2:]])


def _last_sizes(x: Tensor) -> tuple[Dim, Dim]:
    rows, columns = (x.shape or ())[-2:]
    return rows, columns


@table("linalg_tensorsolve")
@eager_if_empty
def linalg_tensorsolve(op: Builder, self: Tensor, other: Tensor, dims: list[int] | None) -> Tensor:
    """linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor"""
    assert self.shape is not None and other.shape is not None
    rank = len(self.shape)
    behind = [dim % rank for dim in dims or ()]
    turned = permuted(op, self, [*(axis for axis in range(rank) if axis not in behind), *behind])
    sizes = matrix_sizes(op, turned)[len(other.shape) :]
    n = math.prod(sizes)
    return shaped(op, linalg_solve(op, shaped(op, turned, [n, n]), shaped(op, other, [n]), True), sizes)


@table("linalg_solve_triangular")
def linalg_solve_triangular(op: Builder, self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""
    if not left:
        turned = linalg_solve_triangular(op, swapped(op, self, -2, -1), swapped(op, B, -2, -1), not upper, True, unitriangular)
        return swapped(op, turned, -2, -1)
    matrices = Matrices(op, _spread(op, self, B))
    found = substitute(op, matrices.x, matrices.flat(B), upper=upper, unit=unitriangular)
    return matrices.back(found, *_last_sizes(B))


@table("triangular_solve")
def triangular_solve(
    op: Builder, self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)
    -> (Tensor solution, Tensor cloned_coefficient)"""
    matrix = swapped(op, A, -2, -1) if transpose else A
    return linalg_solve_triangular(op, matrix, self, upper != transpose, True, unitriangular), A


# LU


@table("linalg_lu_factor_ex", "_lu_with_info")
@eager_if_empty
def linalg_lu_factor_ex(op: Builder, A: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x, pivot=pivot)[0]
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    return factors, _lapack_pivots(op, matrices, found), matrices.info()


@table("linalg_lu_factor")
@eager_if_empty
def linalg_lu_factor(op: Builder, A: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    """linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)"""
    factors, pivots, _ = linalg_lu_factor_ex(op, A, pivot, False)
    return factors, pivots


@table("linalg_lu")
def linalg_lu(op: Builder, A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    matrices = Matrices(op, A)
    m = matrices.rows
    found, moved = lu(op, matrices.x, eye(op, matrices.count, m, m) if pivot else None, pivot=pivot)
    lower, upper = _lower_and_upper(op, matrices, found.factors)
    nothing = op.constant(torch.empty(0, dtype=A.dtype))
    return nothing if moved is None else matrices.back(swapped(op, moved, 1, 2), m, m), lower, upper


def _lower_and_upper(op: Builder, matrices: Matrices, factors: Tensor) -> tuple[Tensor, Tensor]:
    m, n = matrices.rows, matrices.columns
    k = SymbolicSize.smaller(m, n)
    left, right = cut(op, factors, 2, 0, k), cut(op, factors, 1, 0, k)
    unit = diagonal_mask(op, m, k)
    lower, upper = triangle(op, left, upper=False, beside=1, other=unit), triangle(op, right, upper=True)
    return matrices.back(lower, m, k), matrices.back(upper, k, n)


def _exchanged(op: Builder, pivots: Tensor, matrices: Matrices, x: Tensor, *, back: bool = False) -> Tensor:
    """Apply LAPACK's row exchanges to float64[batch, m, n], or undo them.

    The pivots are int32[*batch, k].
    """
    count = SymbolicSize.smaller(matrices.rows, matrices.columns)
    others = op.Sub(op.cast(shaped(op, pivots, [matrices.count, count, 1]), torch.int64), 1)
    rows = row_numbers(op, matrices.rows)

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        return exchange_rows(op, x, rows, k, op.Gather(others, k, axis=1))[0], []

    return scan_numbers(op, count, body, x, reverse=back)[0]


@table("lu_unpack")
def lu_unpack(
    op: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
    -> (Tensor P, Tensor L, Tensor U)"""
    matrices = Matrices(op, LU_data)
    m = matrices.rows
    nothing = op.constant(torch.empty(0, dtype=LU_data.dtype))
    lower, upper = _lower_and_upper(op, matrices, matrices.x) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    permutation = _exchanged(op, LU_pivots, matrices, eye(op, matrices.count, m, m), back=True)
    return matrices.back(permutation, m, m), lower, upper


@table("lu_solve")
@eager_if_empty
def lu_solve(op: Builder, self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor"""
    return linalg_lu_solve(op, LU_data, LU_pivots, self, True, False)


@table("linalg_lu_solve")
def linalg_lu_solve(op: Builder, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if not left:
        turned = linalg_lu_solve(op, LU, pivots, swapped(op, B, -2, -1), True, not adjoint)
        return swapped(op, turned, -2, -1)
    assert LU.shape is not None and B.shape is not None
    if LU.shape[:-2] != B.shape[:-2]:
        op.decline("the batch sizes differ")
    matrices = Matrices(op, LU)
    right = matrices.flat(B)
    if adjoint:
        turned = swapped(op, matrices.x, 1, 2)
        result = substitute(op, turned, substitute(op, turned, right, upper=False), upper=True, unit=True)
        result = _exchanged(op, pivots, matrices, result, back=True)
    else:
        below = substitute(op, matrices.x, _exchanged(op, pivots, matrices, right), upper=False, unit=True)
        result = substitute(op, matrices.x, below, upper=True)
    return matrices.back(result, *_last_sizes(B))
