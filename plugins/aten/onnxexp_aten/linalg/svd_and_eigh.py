"""Singular values and eigenvalues by Jacobi's rotations in a loop, and what is made of them; the exponential of a matrix.

Sources: Golub and Van Loan, "Matrix Computations", 8.5.6 (the order of rotations), 8.6.3 (one-sided Jacobi), 9.3 (scaling and
squaring). Singular and eigenvectors are determined up to their signs only; these need not be LAPACK's.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.linalg.factorization import Matrices, dims, eager_if_empty, eye, householder, q_of
from onnxexp_aten.math.arithmetic import extreme
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.composed_views import swapped, unsqueezed, with_shape

__all__ = ["singular_values", "table"]

table = SymbolicTable("aten")

_SWEEPS = 12
"""Each rotates every pair of columns once; convergence is quadratic after a few."""


def _next(count: int) -> torch.Tensor:
    """int64[count]: which columns come next, where the n-th of both halves are a pair; all have met after count - 1 rounds.

    As in a tournament, the first stays and the others move on by one place of a ring, the second half of which is the lower row.
    """
    half = count // 2
    ring = [*range(1, half), *range(count - 1, half - 1, -1)]
    moved = dict(zip(ring, ring[-1:] + ring[:-1], strict=True))
    return torch.tensor([moved.get(place, 0) for place in range(count)], dtype=torch.int64)


@dataclasses.dataclass(frozen=True)
class _Rotated:
    """``A V`` with orthogonal columns by falling size, these sizes, and V: float64[batch, m, n], [batch, 1, n], [batch, n, n]."""

    columns: Tensor
    sizes: Tensor
    turned: Tensor


def _with_turns(op: Builder, a: Tensor) -> Tensor:
    """One-sided Jacobi of float64[batch, m, n]: ``A V`` above V, in any order, and a column of zeros where n is odd."""
    batch, m, n = dims(a)
    return _turned(op, op.Concat(_even(op, a), eye(op, batch, n, n + n % 2), axis=1), m)


def _rotated(op: Builder, a: Tensor) -> _Rotated:
    """One-sided Jacobi of float64[batch, m, n]."""
    batch, m, n = dims(a)
    both = _with_turns(op, a)
    sizes, order = op.TopK(_lengths(op, op.Slice(both, [0], [m], [1])), [n], axis=2, outputs=2)
    chosen = op.cast(op.Equal(op.constant(torch.arange(n + n % 2)[None, :, None]), order), torch.float64)
    columns, turned = op.Split(op.MatMul(both, chosen), [m, n], axis=1, outputs=2)
    return _Rotated(with_shape(columns, [batch, m, n]), with_shape(sizes, [batch, 1, n]), with_shape(turned, [batch, n, n]))


def singular_values(op: Builder, a: Tensor) -> Tensor:
    """The singular values of float64[batch, m, n] alone, float64[batch, 1, min(m, n)]."""
    batch, m, n = dims(a)
    if m < n:
        return singular_values(op, swapped(op, a, 1, 2))
    lengths = _lengths(op, _turned(op, _even(op, a), m))
    return with_shape(op.TopK(lengths, [n], axis=2, outputs=2)[0], [batch, 1, n])


def _even(op: Builder, a: Tensor) -> Tensor:
    """An even number of columns: one of zeros, which no rotation changes, is the last among equals."""
    batch, m, n = dims(a)
    return op.Concat(a, op.constant(torch.zeros(batch, m, 1, dtype=torch.float64)), axis=2) if n % 2 else a


def _lengths(op: Builder, columns: Tensor) -> Tensor:
    return op.ReduceL2(columns, axes=[1], keepdims=1)  # type: ignore[no-any-return]


def _turned(op: Builder, x: Tensor, m: int) -> Tensor:
    """Columns, an even number, turned in pairs until their first m rows are orthogonal."""
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
    """The tangent and the cosine of the smaller angle that makes pairs of columns orthogonal."""
    alpha, beta = op.ReduceSumSquare(left, axes=[1], keepdims=1), op.ReduceSumSquare(right, axes=[1], keepdims=1)
    gamma = op.ReduceSum(op.Mul(left, right), axes=[1], keepdims=1)
    double = op.Div(op.Sub(beta, alpha), gamma)  # of the cotangent of the doubled angle
    root = op.Sqrt(op.Add(op.Mul(double, double), 4.0))
    longer = op.Where(op.Less(double, 0.0), op.Sub(double, root), op.Add(double, root))
    tangent = op.Where(op.cast(gamma, torch.bool), op.Div(2.0, longer), op.constant(0.0, torch.float64))
    return tangent, op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), 1.0)))


# Singular values


def _singular(op: Builder, matrices: Matrices) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values and V of the thin decomposition; U or V is square and orthogonal, the other may lack columns."""
    tall = matrices.rows >= matrices.columns
    found = _rotated(op, matrices.x if tall else swapped(op, matrices.x, 1, 2))
    divisor = op.Where(op.cast(found.sizes, torch.bool), found.sizes, op.constant(1.0, torch.float64))
    other = with_shape(op.Div(found.columns, divisor), dims(found.columns))
    return (other, found.sizes, found.turned) if tall else (found.turned, found.sizes, other)


def _orthonormal(op: Builder, x: Tensor, columns: int) -> Tensor:
    """The columns of float64[batch, m, n], and more of them, orthogonal to each other where some were zero or lacked."""
    batch, m, n = dims(x)
    found = householder(op, x)
    mask = op.constant(torch.eye(m, n, dtype=torch.bool))
    diagonal = op.ReduceSum(op.Where(mask, found.x, op.constant(0.0, torch.float64)), axes=[1], keepdims=1)
    signs = op.Where(op.Less(diagonal, 0.0), op.constant(-1.0, torch.float64), op.constant(1.0, torch.float64))
    if columns > n:
        signs = op.Concat(signs, op.constant(torch.ones(batch, 1, columns - n, dtype=torch.float64)), axis=2)
    return op.Mul(q_of(op, found, eye(op, batch, m, columns)), signs)  # type: ignore[no-any-return]


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
    """What an empty matrix' decomposition consists of, for each matrix: a part of the unit matrix, or a vector of nothing."""
    part = torch.eye(*sizes, dtype=matrices.dtype) if len(sizes) == 2 else torch.empty(sizes, dtype=matrices.dtype)
    return op.constant(part.expand(*matrices.batch, *sizes).contiguous())


@table("svd")
def svd(op: Builder, self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    """svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    if not compute_uv:
        op.decline("torch gives zeros for the vectors that were not asked for")
    u, sizes, vh = linalg_svd(op, self, not some, True, None)
    return u, sizes, swapped(op, vh, -2, -1)


# Eigenvalues of symmetric matrices


@table("_linalg_eigh")
def linalg_eigh(op: Builder, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Tensor, Tensor]:
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    matrices = Matrices(op, A)
    values, vectors = _eigen(op, matrices, upper=UPLO.upper() == "U")
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
    shifted, shift = _shifted(op, matrices, upper=UPLO.upper() == "U")
    return matrices.back(op.Sub(shift, singular_values(op, shifted)), matrices.rows)


def _eigen(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues, float64[batch, 1, n], and their vectors."""
    shifted, shift = _shifted(op, matrices, upper=upper)
    found = _rotated(op, shifted)
    return op.Sub(shift, found.sizes), found.turned


def _shifted(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """A multiple of the unit matrix less the symmetric one, so that nothing is negative, and the factor of it."""
    x, (batch, n, _) = matrices.x, dims(matrices.x)
    ones = torch.ones(n, n, dtype=torch.bool)
    symmetric = op.Where(op.constant(ones.triu() if upper else ones.tril()), x, swapped(op, x, 1, 2))
    shift = op.ReduceL2(symmetric, axes=[1, 2], keepdims=1)
    unit = op.Mul(shift, op.constant(torch.eye(n, dtype=torch.float64)))
    return with_shape(op.Sub(unit, symmetric), [batch, n, n]), shift


# Inverses of any matrices


@table("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(op: Builder, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    matrices = Matrices(op, self)
    return matrices.back(_pseudo_inverse(op, matrices, atol, rtol, hermitian=hermitian)[0], matrices.columns, matrices.rows)


@table("linalg_pinv.atol_rtol_float")
def linalg_pinv_float(op: Builder, self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    return linalg_pinv(op, self, _number(op, atol), _number(op, rtol), hermitian)


@table("pinverse")
def pinverse(op: Builder, self: Tensor, rcond: float) -> Tensor:
    """pinverse(Tensor self, float rcond=1e-15) -> Tensor"""
    return linalg_pinv_float(op, self, None, rcond, False)


def _number(op: Builder, value: float | None) -> Tensor | None:
    return None if value is None else op.constant(value, torch.float64)


def _pseudo_inverse(
    op: Builder, matrices: Matrices, atol: Tensor | None, rtol: Tensor | None, *, hermitian: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """float64[batch, n, m] of singular values that are not counted as zero, which these are, and all of them, in any order."""
    if hermitian:
        values, vectors = _eigen(op, matrices, upper=False)
        left, right, divisor, sizes = vectors, vectors, values, op.Abs(values)
    else:
        tall = matrices.rows >= matrices.columns
        both = _with_turns(op, matrices.x if tall else swapped(op, matrices.x, 1, 2))
        heights = sorted((matrices.rows, matrices.columns), reverse=True)
        columns, turned = op.Split(both, heights, axis=1, outputs=2)
        left, right = (turned, columns) if tall else (columns, turned)
        divisor = op.ReduceSumSquare(columns, axes=[1], keepdims=1)
        sizes = op.Sqrt(divisor)
    kept = op.Greater(sizes, _tolerance(op, matrices, sizes, atol, rtol))
    inverses = op.Where(kept, op.Div(1.0, divisor), op.constant(0.0, torch.float64))
    return op.MatMul(op.Mul(left, inverses), swapped(op, right, 1, 2)), kept, sizes


@table("linalg_matrix_rank.atol_rtol_tensor")
@eager_if_empty
def linalg_matrix_rank(op: Builder, input: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False)
    -> Tensor"""
    matrices = Matrices(op, input)
    if hermitian:
        shifted, shift = _shifted(op, matrices, upper=False)
        sizes = op.Abs(op.Sub(shift, singular_values(op, shifted)))
    else:
        sizes = singular_values(op, matrices.x)
    return _rank(op, matrices, op.Greater(sizes, _tolerance(op, matrices, sizes, atol, rtol)))


@table("linalg_matrix_rank.atol_rtol_float")
@eager_if_empty
def linalg_matrix_rank_float(op: Builder, self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    return linalg_matrix_rank(op, self, _number(op, atol), _number(op, rtol), hermitian)


def _rank(op: Builder, matrices: Matrices, kept: Tensor) -> Tensor:
    return matrices.back(op.ReduceSum(op.cast(kept, torch.int64), axes=[1, 2], keepdims=0))


@table("linalg_lstsq")
def linalg_lstsq(op: Builder, self: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Tensor, ...]:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)
    -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values), the solution of the smallest norm"""
    matrices = Matrices(op, self)
    m, n = matrices.rows, matrices.columns
    right = unsqueezed(op, b, [rank_of(op, b)]) if rank_of(op, b) < rank_of(op, self) else b
    assert right.shape is not None
    width = int(right.shape[-1])
    relative = None if rcond is None or rcond < 0 else rcond
    inverse, kept, sizes = _pseudo_inverse(op, matrices, None, _number(op, relative))
    wanted = matrices.flat(right)
    solution = op.MatMul(inverse, wanted)
    nothing, driver = op.constant(torch.empty(0, dtype=self.dtype)), driver or "gelsy"
    residuals, singular = nothing, nothing
    if m > n and driver != "gelsy":
        missed = op.Sub(op.MatMul(matrices.x, solution), wanted)
        residuals = matrices.back(op.ReduceSumSquare(missed, axes=[1], keepdims=0), width)
    if driver in ("gelsd", "gelss"):
        singular = matrices.back(op.TopK(sizes, [min(m, n)], axis=2, outputs=2)[0], min(m, n))
    vector = right is not b
    return (
        matrices.back(solution, *([n] if vector else [n, width])),
        residuals,
        op.constant(torch.empty(0, dtype=torch.int64)) if driver == "gels" else _rank(op, matrices, kept),
        singular,
    )


def _tolerance(op: Builder, matrices: Matrices, sizes: Tensor, atol: Tensor | None, rtol: Tensor | None) -> Tensor:
    """What counts as zero: the larger of `atol` and `rtol` times the largest value, float64 that broadcasts to [batch, 1, n]."""
    largest = op.ReduceMax(sizes, axes=[2], keepdims=1)

    def each(tolerance: Tensor) -> Tensor:
        wide = op.cast(tolerance, torch.float64)
        return op.Reshape(wide, [-1, 1, 1]) if wide.rank else wide  # type: ignore[no-any-return]

    default = torch.finfo(matrices.dtype).eps * max(matrices.rows, matrices.columns)
    relative: Any = each(rtol) if rtol is not None else default
    if atol is None:
        return op.Mul(largest, relative)  # type: ignore[no-any-return]
    absolute = each(atol)
    if rtol is None:  # torch's default holds only where no absolute tolerance is asked for
        relative = op.Where(op.Greater(absolute, 0.0), op.constant(0.0, torch.float64), op.constant(default, torch.float64))
    return extreme(op, "Max", absolute, op.Mul(largest, relative))


# The exponential

_TERMS = 16
"""Of the series, for matrices of norms up to 1/2: exact to float64's accuracy."""


@table("linalg_matrix_exp")
def matrix_exp(op: Builder, self: Tensor) -> Tensor:
    """linalg_matrix_exp(Tensor self) -> Tensor, by scaling and squaring"""
    matrices = Matrices(op, self)
    n = matrices.rows
    norm = op.ReduceMax(op.ReduceSum(op.Abs(matrices.x), axes=[2], keepdims=0), keepdims=0)
    halvings = op.Ceil(op.Div(op.Log(op.Max(norm, 0.5)), op.constant(torch.log(torch.tensor(2.0, dtype=torch.float64)))))
    halvings = op.Add(halvings, 1.0)
    x = op.Div(matrices.x, op.Pow(op.constant(2.0, torch.float64), halvings))
    result = _taylor(op, x, matrices.count, n)

    def body(number: Tensor, power: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        return None, [op.MatMul(power, power)], []

    squared = op.loop(op.cast(halvings, torch.int64), None, body, [result])[0]
    return matrices.back(squared, n, n)


def _taylor(op: Builder, x: Tensor, batch: int, n: int) -> Tensor:
    """The series by Paterson's and Stockmeyer's rule: a polynomial in the fourth power whose coefficients are cubic ones."""
    square = op.MatMul(x, x)
    powers = op.Concat(eye(op, batch, n, n), x, square, op.MatMul(square, x), axis=1)
    inverses = [1 / math.factorial(k) for k in range(_TERMS)]
    factors = op.constant(torch.tensor(inverses, dtype=torch.float64).reshape(-1, 4))
    cubic = op.Reshape(op.MatMul(factors, op.Reshape(powers, [batch, 4, n * n])), [batch, _TERMS // 4 * n, n])
    *others, result = op.Split(cubic, [n] * (_TERMS // 4), axis=1, outputs=_TERMS // 4)
    fourth = op.MatMul(square, square)
    for other in reversed(others):
        result = op.Add(op.MatMul(fourth, result), other)
    return with_shape(result, [batch, n, n])
