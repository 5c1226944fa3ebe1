"""Determinants, inverses, linear equations: what follows from the factorizations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten
from onnxexp_aten.factorization import Factors, Matrices, cholesky, householder, lu, q_of, substitute
from onnxexp_aten.layout import swapped, unsqueezed, with_shape

__all__ = ["solved"]


def _known_for_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of matrices without rows, or none at all, the results are known: torch says them."""

    @functools.wraps(function)
    def symbolic(op: Builder, *args: Any) -> Any:
        if not any(isinstance(arg, Tensor) and arg.shape is not None and 0 in arg.shape for arg in args):
            return function(op, *args)
        zeros = [torch.zeros(*arg.shape, dtype=arg.dtype) if isinstance(arg, Tensor) else arg for arg in args]
        overload = getattr(torch.ops.aten, op.node.op.removeprefix("aten::")).default
        named = {given.name: arg for given, arg in zip(overload._schema.arguments, zeros, strict=True) if given.kwarg_only}
        results = overload(*zeros[: len(zeros) - len(named)], **named)
        return op.constant(results) if isinstance(results, torch.Tensor) else tuple(map(op.constant, results))

    return symbolic


def _eye(op: Builder, batch: int, rows: int, columns: int) -> Tensor:
    return op.constant(torch.eye(rows, columns, dtype=torch.float64).expand(batch, rows, columns).contiguous())


def _diagonal(op: Builder, x: Tensor) -> Tensor:
    """float64[batch, min(m, n)] of float64[batch, m, n]"""
    assert x.shape is not None
    m, n = (int(size) for size in x.shape[1:])
    kept = op.Where(op.constant(torch.eye(m, n, dtype=torch.bool)), x, op.constant(0.0, torch.float64))
    return op.ReduceSum(kept, axes=[2 if m <= n else 1], keepdims=0)  # type: ignore[no-any-return]


def _triangle(op: Builder, x: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    assert x.shape is not None
    ones = torch.ones(*(int(size) for size in x.shape[1:]), dtype=torch.bool)
    mask = torch.triu(ones, 1 if unit else 0) if upper else torch.tril(ones, -1 if unit else 0)
    kept = op.Where(op.constant(mask), x, op.constant(0.0, torch.float64))
    return op.Add(kept, op.constant(torch.eye(*mask.shape, dtype=torch.float64))) if unit else kept  # type: ignore[no-any-return]


def _permuted(op: Builder, b: Tensor, order: Tensor) -> Tensor:
    """The rows of float64[batch, n, k] in the order int64[batch, n, 1]."""
    return op.MatMul(_rows_to(op, order), b)  # type: ignore[no-any-return]


def _rows_to(op: Builder, order: Tensor) -> Tensor:
    """The permutation matrix P of ``(P b)[i] = b[order[i]]``, float64[batch, n, n]."""
    assert order.shape is not None
    return op.cast(op.Equal(order, op.constant(torch.arange(int(order.shape[1]))[None, None])), torch.float64)


def solved(op: Builder, found: Factors, b: Tensor) -> Tensor:
    """X with ``A X = B`` of float64[batch, n, k]."""
    below = substitute(op, found.factors, _permuted(op, b, found.order), upper=False, unit=True)
    return substitute(op, found.factors, below, upper=True)


def _info(op: Builder, matrices: Matrices) -> Tensor:
    """LAPACK's "it went well": a graph cannot raise, and has NaN or infinities where it did not."""
    return op.constant(torch.zeros(matrices.batch, dtype=torch.int32))


def _lapack_pivots(op: Builder, matrices: Matrices, found: Factors) -> Tensor:
    count = min(matrices.rows, matrices.columns)
    return matrices.back(op.cast(op.Add(found.pivots, 1), torch.int32), count)


# Determinants


def _determinant(op: Builder, matrices: Matrices, found: Factors) -> tuple[Tensor, Tensor]:
    """The diagonal of U, float64[batch, n], and the permutation's sign, float64[batch]."""
    moved = op.Not(op.Equal(found.pivots, op.constant(torch.arange(matrices.rows)[None])))
    signs = op.Where(moved, op.constant(-1.0, torch.float64), op.constant(1.0, torch.float64))
    return _diagonal(op, found.factors), op.ReduceProd(signs, axes=[1], keepdims=0)


@aten("_linalg_det")
@_known_for_nothing
def linalg_det(op: Builder, A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x)
    diagonal, sign = _determinant(op, matrices, found)
    result = op.Mul(op.ReduceProd(diagonal, axes=[1], keepdims=0), sign)
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    return matrices.back(result), factors, _lapack_pivots(op, matrices, found)


@aten("linalg_det")
@_known_for_nothing
def det(op: Builder, A: Tensor) -> Tensor:
    """linalg_det(Tensor A) -> Tensor"""
    return linalg_det(op, A)[0]  # type: ignore[no-any-return]


@aten("_linalg_slogdet")
@_known_for_nothing
def linalg_slogdet(op: Builder, A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x)
    diagonal, sign = _determinant(op, matrices, found)
    sign = op.Mul(op.ReduceProd(op.Sign(diagonal), axes=[1], keepdims=0), sign)
    size = op.ReduceSum(op.Log(op.Abs(diagonal)), axes=[1], keepdims=0)
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    return matrices.back(sign), matrices.back(size), factors, _lapack_pivots(op, matrices, found)


# Equations


@aten("linalg_inv_ex")
@_known_for_nothing
def linalg_inv_ex(op: Builder, A: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    matrices = Matrices(op, A)
    n = matrices.rows
    batch = torch.Size(matrices.batch).numel()
    return matrices.back(solved(op, lu(op, matrices.x), _eye(op, batch, n, n)), n, n), _info(op, matrices)


def _is_vector(A: Tensor, B: Tensor) -> bool:
    """Does torch.linalg.solve take B for a batch of vectors?"""
    assert A.shape is not None and B.shape is not None
    return len(B.shape) == 1 or (len(A.shape) - 1 == len(B.shape) and A.shape[:-1] == B.shape)


@aten("_linalg_solve_ex")
@_known_for_nothing
def linalg_solve_ex(op: Builder, A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)
    -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""
    vector = _is_vector(A, B)
    right = unsqueezed(op, B, [len(B.shape or ())]) if vector else B
    matrices = Matrices(op, A)
    result = _solution(op, A, right, left=left)
    found = lu(op, matrices.x)
    factors = matrices.back(found.factors, matrices.rows, matrices.rows)
    result = op.Squeeze(result, axes=[len(result.shape or ()) - 1]) if vector else result
    return result, factors, _lapack_pivots(op, matrices, found), _info(op, matrices)


def _solution(op: Builder, A: Tensor, B: Tensor, *, left: bool) -> Tensor:
    """``A^-1 B``, or ``B A^-1``; the batch sizes broadcast."""
    if not left:
        return swapped(op, _solution(op, swapped(op, A, -2, -1), swapped(op, B, -2, -1), left=True), -2, -1)
    assert A.shape is not None and B.shape is not None
    batch = list(torch.broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2])))  # type: ignore[arg-type]
    wide = with_shape(op.Expand(A, [*batch, 1, 1]), [*batch, *A.shape[-2:]]) if batch != list(A.shape[:-2]) else A
    matrices = Matrices(op, wide)
    return matrices.back(solved(op, lu(op, matrices.x), matrices.flat(B)), matrices.rows, int(B.shape[-1]))


@aten("linalg_solve_triangular")
def linalg_solve_triangular(op: Builder, self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""
    if not left:
        turned = linalg_solve_triangular(op, swapped(op, self, -2, -1), swapped(op, B, -2, -1), not upper, True, unitriangular)
        return swapped(op, turned, -2, -1)
    assert self.shape is not None and B.shape is not None
    batch = list(torch.broadcast_shapes(tuple(self.shape[:-2]), tuple(B.shape[:-2])))  # type: ignore[arg-type]
    wide = self if batch == list(self.shape[:-2]) else with_shape(op.Expand(self, [*batch, 1, 1]), [*batch, *self.shape[-2:]])
    matrices = Matrices(op, wide)
    found = substitute(op, matrices.x, matrices.flat(B), upper=upper, unit=unitriangular)
    return matrices.back(found, matrices.rows, int(B.shape[-1]))


@aten("triangular_solve")
def triangular_solve(
    op: Builder, self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)
    -> (Tensor solution, Tensor cloned_coefficient)"""
    matrix = swapped(op, A, -2, -1) if transpose else A
    return linalg_solve_triangular(op, matrix, self, upper != transpose, True, unitriangular), A


# LU


@aten("linalg_lu_factor_ex")
@_known_for_nothing
def linalg_lu_factor_ex(op: Builder, A: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x, pivot=pivot)
    factors = matrices.back(found.factors, matrices.rows, matrices.columns)
    return factors, _lapack_pivots(op, matrices, found), _info(op, matrices)


@aten("linalg_lu")
def linalg_lu(op: Builder, A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    matrices = Matrices(op, A)
    found = lu(op, matrices.x, pivot=pivot)
    lower, upper = _lower_and_upper(op, matrices, found.factors)
    m = matrices.rows
    permutation = swapped(op, _rows_to(op, found.order), 1, 2)
    return matrices.back(permutation, m, m) if pivot else op.constant(torch.empty(0, dtype=A.dtype)), lower, upper


def _lower_and_upper(op: Builder, matrices: Matrices, factors: Tensor) -> tuple[Tensor, Tensor]:
    m, n = matrices.rows, matrices.columns
    k = min(m, n)
    left = with_shape(op.Slice(factors, [0], [k], [2]), [*(factors.shape or ())[:1], m, k]) if k < n else factors
    right = with_shape(op.Slice(factors, [0], [k], [1]), [*(factors.shape or ())[:1], k, n]) if k < m else factors
    lower, upper = _triangle(op, left, upper=False, unit=True), _triangle(op, right, upper=True)
    return matrices.back(lower, m, k), matrices.back(upper, k, n)


def _order_of(op: Builder, pivots: Tensor, m: int) -> Tensor:
    """The order of the rows, int64[batch, m, 1], that LAPACK's exchanges, int32[batch, k], give."""
    assert pivots.shape is not None
    batch, count = (int(size) for size in pivots.shape)
    rows = op.constant(torch.arange(m)[None, :, None])

    def body(k: Tensor, order: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        other = op.Reshape(op.Sub(op.Gather(op.cast(pivots, torch.int64), op.Reshape(k, [1]), axis=1), 1), [batch, 1, 1])
        first, there = op.Gather(order, op.Reshape(k, [1]), axis=1), op.Equal(rows, other)
        second = op.ReduceSum(op.Where(there, order, 0), axes=[1], keepdims=1)
        return None, [op.Where(op.Equal(rows, k), second, op.Where(there, first, order))], []

    start = op.constant(torch.arange(m)[None, :, None].expand(batch, m, 1).contiguous())
    return op.loop(count, None, body, [start])[0]


def _flat_pivots(op: Builder, pivots: Tensor, matrices: Matrices) -> Tensor:
    count = min(matrices.rows, matrices.columns)
    batch = torch.Size(matrices.batch).numel()
    return with_shape(op.Reshape(pivots, [batch, count]), [batch, count])


@aten("lu_unpack")
def lu_unpack(
    op: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
    -> (Tensor P, Tensor L, Tensor U)"""
    matrices = Matrices(op, LU_data)
    nothing = op.constant(torch.empty(0, dtype=LU_data.dtype))
    lower, upper = _lower_and_upper(op, matrices, matrices.x) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    order = _order_of(op, _flat_pivots(op, LU_pivots, matrices), matrices.rows)
    permutation = swapped(op, _rows_to(op, order), 1, 2)
    return matrices.back(permutation, matrices.rows, matrices.rows), lower, upper


@aten("linalg_lu_solve")
def linalg_lu_solve(op: Builder, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if not left:
        turned = linalg_lu_solve(op, LU, pivots, swapped(op, B, -2, -1), True, not adjoint)
        return swapped(op, turned, -2, -1)
    assert LU.shape is not None and B.shape is not None
    if LU.shape[:-2] != B.shape[:-2]:
        op.decline("batch sizes that broadcast")
    matrices = Matrices(op, LU)
    order = _order_of(op, _flat_pivots(op, pivots, matrices), matrices.rows)
    right = matrices.flat(B)
    if adjoint:
        turned = swapped(op, matrices.x, 1, 2)
        result = substitute(op, turned, substitute(op, turned, right, upper=False), upper=True, unit=True)
        result = op.MatMul(swapped(op, _rows_to(op, order), 1, 2), result)
    else:
        result = solved(op, Factors(matrices.x, order, pivots), right)
    return matrices.back(result, matrices.rows, int(B.shape[-1]))


# Cholesky


@aten("cholesky")
def cholesky_(op: Builder, self: Tensor, upper: bool) -> Tensor:
    """cholesky(Tensor self, bool upper=False) -> Tensor"""
    return linalg_cholesky_ex(op, self, upper, False)[0]


@aten("linalg_cholesky_ex")
@_known_for_nothing
def linalg_cholesky_ex(op: Builder, self: Tensor, upper: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    matrices = Matrices(op, self)
    n = matrices.rows
    found = cholesky(op, swapped(op, matrices.x, 1, 2) if upper else matrices.x)
    return matrices.back(swapped(op, found, 1, 2) if upper else found, n, n), _info(op, matrices)


@aten("cholesky_solve")
def cholesky_solve(op: Builder, self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    factor, other = input2, swapped(op, input2, -2, -1)
    lower, raised = (other, factor) if upper else (factor, other)
    below = linalg_solve_triangular(op, lower, self, False, True, False)
    return linalg_solve_triangular(op, raised, below, True, True, False)


@aten("cholesky_inverse")
def cholesky_inverse(op: Builder, self: Tensor, upper: bool) -> Tensor:
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    matrices = Matrices(op, self)
    eye = matrices.back(_eye(op, torch.Size(matrices.batch).numel(), matrices.rows, matrices.rows), matrices.rows, matrices.rows)
    return cholesky_solve(op, eye, self, upper)


# QR


@aten("linalg_qr")
def linalg_qr(op: Builder, A: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)"""
    matrices = Matrices(op, A)
    m, n = matrices.rows, matrices.columns
    packed, taus = householder(op, matrices.x)
    rows = min(m, n) if mode in ("reduced", "r") else m
    top = with_shape(op.Slice(packed, [0], [rows], [1]), [*(packed.shape or ())[:1], rows, n]) if rows < m else packed
    right = matrices.back(_triangle(op, top, upper=True), rows, n)
    if mode == "r":
        return op.constant(torch.empty(0, dtype=A.dtype)), right
    batch = torch.Size(matrices.batch).numel()
    return matrices.back(q_of(op, packed, taus, _eye(op, batch, m, rows)), m, rows), right


@aten("geqrf")
def geqrf(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    matrices = Matrices(op, self)
    packed, taus = householder(op, matrices.x)
    count = min(matrices.rows, matrices.columns)
    return matrices.back(packed, matrices.rows, matrices.columns), matrices.back(taus, count)


def _flat_taus(op: Builder, tau: Tensor) -> Tensor:
    assert tau.shape is not None
    batch, count = torch.Size(tau.shape[:-1]).numel(), int(tau.shape[-1])  # type: ignore[arg-type]
    return with_shape(op.Reshape(op.cast(tau, torch.float64), [batch, count]), [batch, count])


@aten("linalg_householder_product")
def linalg_householder_product(op: Builder, input: Tensor, tau: Tensor) -> Tensor:
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    matrices = Matrices(op, input)
    m, n = matrices.rows, matrices.columns
    eye = _eye(op, torch.Size(matrices.batch).numel(), m, n)
    if tau.shape is not None and tau.shape[-1] == 0:
        return matrices.back(eye, m, n)
    return matrices.back(q_of(op, matrices.x, _flat_taus(op, tau), eye), m, n)


@aten("ormqr")
def ormqr(op: Builder, self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    """ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if not left:
        turned = ormqr(op, self, input2, swapped(op, input3, -2, -1), True, not transpose)
        return swapped(op, turned, -2, -1)
    matrices, other = Matrices(op, self), Matrices(op, input3)
    result = q_of(op, matrices.x, _flat_taus(op, input2), other.x, transposed=transpose)
    return other.back(result, other.rows, other.columns)
