"""Singular values and eigenvalues by Jacobi's rotations in a loop, and what is made of them; the exponential of a matrix.

Sources: Golub and Van Loan, "Matrix Computations", 8.5.6 (the order of rotations), 8.6.3 (one-sided Jacobi), 9.3 (scaling and
squaring). Singular and eigenvectors are determined up to their signs only; these need not be LAPACK's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of
from onnxexp_aten.elementwise import extreme
from onnxexp_aten.factorization import Matrices, householder, q_of
from onnxexp_aten.layout import swapped, unsqueezed, with_shape

__all__: list[str] = []

_SWEEPS = 12
"""Each rotates every pair of columns once; convergence is quadratic after a few."""


def _rounds(count: int) -> torch.Tensor:
    """int64[count - 1, count]: an order of the columns for each round, in which the n-th of both halves are a pair."""
    ring = list(range(1, count))
    orders = []
    for turn in range(count - 1):
        players = [0, *ring[turn:], *ring[:turn]]
        orders.append([*players[: count // 2], *reversed(players[count // 2 :])])
    return torch.tensor(orders, dtype=torch.int64).reshape(len(orders), count)


@dataclasses.dataclass(frozen=True)
class _Rotated:
    """``A V`` with orthogonal columns by falling size, these sizes, and V: float64[batch, m, n], [batch, n], [batch, n, n]."""

    columns: Tensor
    sizes: Tensor
    turned: Tensor


def _rotated(op: Builder, a: Tensor) -> _Rotated:
    """One-sided Jacobi of float64[batch, m, n]."""
    assert a.shape is not None
    batch, m, n = (int(size) for size in a.shape)
    even = n + n % 2
    if even > n:
        a = op.Concat(a, op.constant(torch.zeros(batch, m, 1, dtype=torch.float64)), axis=2)
    eye = op.constant(torch.eye(even, dtype=torch.float64).expand(batch, even, even).contiguous())
    both = op.Concat(a, eye, axis=1)
    orders = _rounds(even)
    forth, back = op.constant(orders), op.constant(orders.argsort(1))

    def body(number: Tensor, x: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        turn = op.Sub(number, op.Mul(op.Div(number, even - 1), even - 1))
        x = op.Gather(x, op.Gather(forth, turn, axis=0), axis=2)
        one, other = op.Split(x, [even // 2, even // 2], axis=2, outputs=2)
        x = op.Concat(*_turned(op, one, other, m), axis=2)
        return None, [op.Gather(x, op.Gather(back, turn, axis=0), axis=2)], []

    both = op.loop(_SWEEPS * (even - 1), None, body, [both])[0]
    columns, turned = op.Split(both, [m, even], axis=1, outputs=2)
    sizes = op.ReduceL2(columns, axes=[1], keepdims=0)
    padding = op.constant(torch.tensor([False] * n + [True] * (even - n)))
    sizes, order = op.TopK(op.Where(padding, op.constant(-1.0, torch.float64), sizes), [n], axis=1, outputs=2)
    return _Rotated(_reordered(op, columns, order, m, n), sizes, _reordered(op, _head(op, turned, n), order, n, n))


def _turned(op: Builder, one: Tensor, other: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Pairs of columns turned so that their first m rows are orthogonal."""
    left, right = _head(op, one, m), _head(op, other, m)
    alpha, beta = op.ReduceSumSquare(left, axes=[1], keepdims=1), op.ReduceSumSquare(right, axes=[1], keepdims=1)
    gamma = op.ReduceSum(op.Mul(left, right), axes=[1], keepdims=1)
    some = op.cast(gamma, torch.bool)
    number = op.constant(1.0, torch.float64)
    zeta = op.Div(op.Mul(op.Sub(beta, alpha), 0.5), op.Where(some, gamma, number))
    sign = op.Where(op.Less(zeta, 0.0), op.constant(-1.0, torch.float64), number)
    tangent = op.Div(sign, op.Add(op.Abs(zeta), op.Sqrt(op.Add(op.Mul(zeta, zeta), 1.0))))
    tangent = op.Where(some, tangent, op.constant(0.0, torch.float64))
    cosine = op.Reciprocal(op.Sqrt(op.Add(op.Mul(tangent, tangent), 1.0)))
    sine = op.Mul(cosine, tangent)
    return op.Sub(op.Mul(one, cosine), op.Mul(other, sine)), op.Add(op.Mul(one, sine), op.Mul(other, cosine))


def _head(op: Builder, x: Tensor, rows: int) -> Tensor:
    return op.Slice(x, [0], [rows], [1])  # type: ignore[no-any-return]


def _reordered(op: Builder, x: Tensor, order: Tensor, rows: int, columns: int) -> Tensor:
    """Columns by an order of their own for each matrix, int64[batch, columns]: the product with a matrix of zeros and ones."""
    assert x.shape is not None
    places = op.constant(torch.arange(int(x.shape[2]))[None, :, None])
    chosen = op.cast(op.Equal(places, op.Unsqueeze(order, axes=[1])), torch.float64)
    return with_shape(op.MatMul(x, chosen), [x.shape[0], rows, columns])


# Singular values


def _singular(op: Builder, matrices: Matrices) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values and V of the thin decomposition."""
    tall = matrices.rows >= matrices.columns
    found = _rotated(op, matrices.x if tall else swapped(op, matrices.x, 1, 2))
    positive = op.Greater(found.sizes, 0.0)
    divisor = op.Where(positive, found.sizes, op.constant(1.0, torch.float64))
    other = op.Div(found.columns, op.Unsqueeze(divisor, axes=[1]))
    other = with_shape(other, list(found.columns.shape or ()))
    return (other, found.sizes, found.turned) if tall else (found.turned, found.sizes, other)


def _orthonormal(op: Builder, x: Tensor, columns: int) -> Tensor:
    """The columns of float64[batch, m, n], and more of them, orthogonal to each other where some were zero or lacked."""
    assert x.shape is not None
    batch, m, n = (int(size) for size in x.shape)
    packed, taus = householder(op, x)
    start = torch.eye(m, columns, dtype=torch.float64).expand(batch, m, columns).contiguous()
    made = q_of(op, packed, taus, op.constant(start))
    mask = op.constant(torch.eye(m, columns, dtype=torch.bool)[:, : min(n, columns)])
    diagonal = op.ReduceSum(op.Where(mask, _columns(op, packed, min(n, columns)), op.constant(0.0, torch.float64)), axes=[1])
    signs = op.Where(op.Less(diagonal, 0.0), op.constant(-1.0, torch.float64), op.constant(1.0, torch.float64))
    if columns > n:
        signs = op.Concat(signs, op.constant(torch.ones(batch, 1, columns - n, dtype=torch.float64)), axis=2)
    return op.Mul(made, signs)  # type: ignore[no-any-return]


def _columns(op: Builder, x: Tensor, count: int) -> Tensor:
    return op.Slice(x, [0], [count], [2])  # type: ignore[no-any-return]


@aten("_linalg_svd")
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
    u, sizes, v = _singular(op, matrices)
    if not compute_uv:
        nothing = op.constant(torch.empty(0, dtype=A.dtype))
        return nothing, matrices.back(sizes, k), nothing
    u = _orthonormal(op, u, width)
    v = swapped(op, _orthonormal(op, v, height), 1, 2)
    return matrices.back(u, m, width), matrices.back(sizes, k), matrices.back(v, height, n)


def _unit(op: Builder, matrices: Matrices, *sizes: int) -> Tensor:
    """What an empty matrix' decomposition consists of, for each matrix: a part of the unit matrix, or a vector of nothing."""
    part = torch.eye(*sizes, dtype=matrices.dtype) if len(sizes) == 2 else torch.empty(sizes, dtype=matrices.dtype)
    return op.constant(part.expand(*matrices.batch, *sizes).contiguous())


@aten("svd")
def svd(op: Builder, self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    """svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    if not compute_uv:
        op.decline("torch gives zeros for the vectors that were not asked for")
    u, sizes, vh = linalg_svd(op, self, not some, True, None)
    return u, sizes, swapped(op, vh, -2, -1)


# Eigenvalues of symmetric matrices


@aten("_linalg_eigh")
def linalg_eigh(op: Builder, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Tensor, Tensor]:
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    matrices = Matrices(op, A)
    values, vectors = _eigen(op, matrices, upper=UPLO.upper() == "U")
    n = matrices.rows
    vectors = matrices.back(vectors, n, n) if compute_v else op.constant(torch.empty(0, dtype=A.dtype))
    return matrices.back(values, n), vectors


def _eigen(op: Builder, matrices: Matrices, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Rising eigenvalues, float64[batch, n], and their vectors. A multiple of the unit matrix makes all of them positive."""
    n = matrices.rows
    ones = torch.ones(n, n, dtype=torch.bool)
    zero = op.constant(0.0, torch.float64)
    half = op.Where(op.constant(torch.triu(ones, 1) if upper else torch.tril(ones, -1)), matrices.x, zero)
    eye = op.constant(torch.eye(n, dtype=torch.float64))
    symmetric = op.Add(op.Add(half, swapped(op, half, 1, 2)), op.Mul(matrices.x, eye))
    shift = op.Sqrt(op.ReduceSumSquare(symmetric, axes=[1, 2], keepdims=1))
    found = _rotated(op, with_shape(op.Add(symmetric, op.Mul(shift, eye)), list(matrices.x.shape or ())))
    falling = op.Sub(found.sizes, op.Squeeze(shift, axes=[2]))
    backwards = op.constant(torch.arange(n - 1, -1, -1))
    return op.Gather(falling, backwards, axis=1), op.Gather(found.turned, backwards, axis=2)


# Inverses of any matrices


@aten("linalg_pinv.atol_rtol_tensor")
def linalg_pinv(op: Builder, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    matrices = Matrices(op, self)
    if hermitian:
        values, v = _eigen(op, matrices, upper=False)
        u, sizes = v, op.Abs(values)
    else:
        u, sizes, v = _singular(op, matrices)
        values = sizes
    kept = op.Greater(sizes, _tolerance(op, matrices, sizes, atol, rtol))
    return matrices.back(_pseudo_inverse(op, u, values, v, kept), matrices.columns, matrices.rows)


def _pseudo_inverse(op: Builder, u: Tensor, values: Tensor, v: Tensor, kept: Tensor) -> Tensor:
    """float64[batch, n, m], of the values that are kept."""
    inverses = op.Where(kept, op.Div(1.0, values), op.constant(0.0, torch.float64))
    return op.MatMul(op.Mul(v, op.Unsqueeze(inverses, axes=[1])), swapped(op, u, 1, 2))  # type: ignore[no-any-return]


@aten("linalg_lstsq")
def linalg_lstsq(op: Builder, self: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Tensor, ...]:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None)
    -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values), the solution of the smallest norm"""
    matrices = Matrices(op, self)
    m, n = matrices.rows, matrices.columns
    right = unsqueezed(op, b, [rank_of(op, b)]) if rank_of(op, b) < rank_of(op, self) else b
    assert right.shape is not None
    width = int(right.shape[-1])
    u, sizes, v = _singular(op, matrices)
    relative = None if rcond is None or rcond < 0 else op.constant(rcond, torch.float64)
    kept = op.Greater(sizes, _tolerance(op, matrices, sizes, None, relative))
    wanted = matrices.flat(right)
    solution = op.MatMul(_pseudo_inverse(op, u, sizes, v, kept), wanted)
    nothing, driver = op.constant(torch.empty(0, dtype=self.dtype)), driver or "gelsy"
    residuals, singular = nothing, nothing
    if m > n and driver != "gelsy":
        missed = op.Sub(op.MatMul(matrices.x, solution), wanted)
        residuals = matrices.back(op.ReduceSumSquare(missed, axes=[1], keepdims=0), width)
    if driver in ("gelsd", "gelss"):
        singular = matrices.back(sizes, min(m, n))
    rank = matrices.back(op.ReduceSum(op.cast(kept, torch.int64), axes=[1], keepdims=0))
    vector = right is not b
    return (
        matrices.back(solution, *([n] if vector else [n, width])),
        residuals,
        op.constant(torch.empty(0, dtype=torch.int64)) if driver == "gels" else rank,
        singular,
    )


def _tolerance(op: Builder, matrices: Matrices, sizes: Tensor, atol: Tensor | None, rtol: Tensor | None) -> Tensor:
    """What counts as zero: the larger of `atol` and `rtol` times the largest value, float64 that broadcasts to [batch, n]."""
    largest = op.ReduceMax(sizes, axes=[1], keepdims=1)

    def each(tolerance: Tensor) -> Tensor:
        wide = op.cast(tolerance, torch.float64)
        return op.Reshape(wide, [-1, 1]) if wide.rank else wide  # type: ignore[no-any-return]

    default = torch.finfo(matrices.dtype).eps * max(matrices.rows, matrices.columns)
    relative: Any = each(rtol) if rtol is not None else default
    if atol is None:
        return op.Mul(largest, relative)  # type: ignore[no-any-return]
    absolute = each(atol)
    if rtol is None:  # torch's default holds only where no absolute tolerance is asked for
        relative = op.Where(op.Greater(absolute, 0.0), op.constant(0.0, torch.float64), op.constant(default, torch.float64))
    return extreme(op, "Max", absolute, op.Mul(largest, relative))


# The exponential

_TAYLOR = 14
"""Terms of the series, for matrices of norms up to 1/2: exact to float64's accuracy."""


@aten("linalg_matrix_exp")
def matrix_exp(op: Builder, self: Tensor) -> Tensor:
    """linalg_matrix_exp(Tensor self) -> Tensor, by scaling and squaring"""
    matrices = Matrices(op, self)
    n = matrices.rows
    norm = op.ReduceMax(op.ReduceSum(op.Abs(matrices.x), axes=[2], keepdims=0), keepdims=0)
    halvings = op.Ceil(op.Div(op.Log(op.Max(norm, 0.5)), op.constant(torch.log(torch.tensor(2.0, dtype=torch.float64)))))
    halvings = op.Add(halvings, 1.0)
    x = op.Div(matrices.x, op.Pow(op.constant(2.0, torch.float64), halvings))
    eye = op.constant(torch.eye(n, dtype=torch.float64))
    result = op.Add(op.Mul(x, 1 / _TAYLOR), eye)
    for number in range(_TAYLOR - 1, 0, -1):
        result = op.Add(op.Mul(op.MatMul(x, result), 1 / number), eye)

    def body(number: Tensor, power: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        return None, [op.MatMul(power, power)], []

    squared = op.loop(op.cast(halvings, torch.int64), None, body, [with_shape(result, list(matrices.x.shape or ()))])[0]
    return matrices.back(squared, n, n)
