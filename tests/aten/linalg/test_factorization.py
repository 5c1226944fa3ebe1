"""linalg/factorization.py and its users: LAPACK's functions as loops in the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import linalg

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)

A = torch.randn(2, 5, 5) + 4 * torch.eye(5)
B = torch.randn(2, 5, 3)
V = torch.randn(2, 5)
TALL, WIDE = torch.randn(3, 6, 4), torch.randn(4, 6)
SYMMETRIC = A + A.mT
POSITIVE = A @ A.mT
LOW_RANK = torch.randn(6, 2) @ torch.randn(2, 5)
NOTHING = torch.ones(2, 0, 0)

HAS_QR = hasattr(torch.ops.aten, "qr")
"""torch 2.14 has removed `torch.qr`."""


def case(fn: Callable[..., Any], *inputs: torch.Tensor, name: str = "", **options: Any) -> Case:
    return Case(fn, *inputs, rtol=3e-5, atol=3e-5, name=name or fn.__name__, **{"opsets": OPSETS, **options})


def right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return linalg.solve(a, b.mT, left=False)


def triangles(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        linalg.solve_triangular(a.triu(), b, upper=True),
        linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        linalg.solve_triangular(a.tril(), b.mT, upper=False, left=False),
        torch.triangular_solve(b, a, upper=True, transpose=True).solution,
    )


def least_squares(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Solve least squares with each of LAPACK's drivers."""
    return tuple(part for driver in ("gels", "gelsy", "gelsd", "gelss") for part in linalg.lstsq(a, b, driver=driver))


def by_lu(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    factors, pivots = linalg.lu_factor(a)
    left = linalg.lu_solve(factors, pivots, b), linalg.lu_solve(factors, pivots, b, adjoint=True)
    return (*left, linalg.lu_solve(factors, pivots, b.mT, left=False), *torch.lu_unpack(factors, pivots))


@cases(
    case(linalg.det, A),
    case(linalg.slogdet, A),
    case(torch.logdet, POSITIVE),
    case(linalg.det, NOTHING, name="det of nothing"),
    case(linalg.det, torch.ones(0, 3, 3), name="det of no matrices"),
    case(linalg.inv, A),
    case(linalg.inv, A.double(), name="inv of float64"),
    case(linalg.solve, A, B),
    case(linalg.solve, A, V, name="solve for vectors"),
    case(linalg.solve, A[0], B, name="solve, broadcast"),
    case(right, A, B, name="solve from the right"),
    case(triangles, A, B),
    case(by_lu, A, B),
    case(lambda x: (torch.det(x), *torch.slogdet(x), torch.inverse(x)), A, name="by torch's own names"),
    case(torch.logdet, -POSITIVE, name="logdet of a negative determinant"),
    case(torch.logdet, torch.eye(400) * 1e3, name="logdet of a determinant that no float holds"),
    case(lambda a, b: torch.lu_solve(b, *linalg.lu_factor(a)), A, B, name="lu_solve"),
    case(linalg.tensorsolve, torch.randn(4, 6, 8, 3), torch.randn(4, 6), name="tensorsolve"),
    case(
        lambda a, b: linalg.tensorsolve(a, b, dims=(0, 2)), torch.randn(2, 6, 3, 1), torch.randn(6, 1), name="tensorsolve, dims"
    ),
    case(linalg.tensorinv, torch.randn(4, 6, 8, 3), name="tensorinv"),
    case(linalg.solve, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[1.0], [2.0]]), name="rows must be exchanged"),
)
def test_equations(check):
    check()


@cases(
    *(case(linalg.lu, x, name=f"lu {tuple(x.shape)}") for x in (A, TALL, WIDE)),
    *(case(linalg.qr, x, name=f"qr {tuple(x.shape)}") for x in (A, TALL, WIDE)),
    case(lambda x: linalg.qr(x, mode="complete"), TALL, name="complete qr"),
    case(lambda x: linalg.qr(x, mode="r").R, TALL, name="r alone"),
    *(case(torch.qr, x, name=f"torch.qr {tuple(x.shape)}") for x in (A, TALL) if HAS_QR),
    case(linalg.qr, torch.ones(3, 0), name="qr of nothing"),
    case(lambda x: linalg.qr(x, mode="complete"), torch.ones(3, 0), name="complete qr of nothing"),
    case(lambda x: torch.geqrf(x), WIDE, name="geqrf of a wide matrix"),
    case(lambda x: torch.lu(x, pivot=True), A, name="torch.lu"),
    case(linalg.cholesky, POSITIVE),
    case(lambda x: linalg.cholesky(x, upper=True), POSITIVE, name="upper cholesky"),
    case(lambda x, b: torch.cholesky_solve(b, linalg.cholesky(x)), POSITIVE, B, name="cholesky_solve"),
    case(lambda x: torch.cholesky_inverse(linalg.cholesky(x)), POSITIVE, name="cholesky_inverse"),
    case(lambda x: linalg.householder_product(*torch.geqrf(x)), TALL, name="householder_product"),
    case(lambda x, b: torch.ormqr(*torch.geqrf(x), b), A, B, name="ormqr"),
    case(lambda x, b: torch.ormqr(*torch.geqrf(x), b.mT, left=False, transpose=True), A, B, name="ormqr from the right"),
)
def test_factorizations(check):
    check()


def rebuilt(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compute results of the SVD that do not depend on the signs of the vectors."""
    u, s, vh = linalg.svd(x, full_matrices=False)
    full_u, _, full_vh = linalg.svd(x)
    eyes = full_u.mT @ full_u, full_vh @ full_vh.mT
    return u * s.unsqueeze(-2) @ vh, s, u.abs(), vh.abs(), *eyes


def recomposed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, vectors = linalg.eigh(x)
    return vectors * values.unsqueeze(-2) @ vectors.mT, values, vectors.abs(), linalg.eigvalsh(x, UPLO="U")


ORDERS = (1, -1, 2, -2, math.inf, -math.inf, "fro", "nuc")


def norms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    other = (linalg.matrix_norm(x, order, dim=(0, -1), keepdim=True) for order in ORDERS)
    return *(linalg.matrix_norm(x, order) for order in ORDERS), *other, linalg.norm(x), linalg.norm(x, 3, dim=1)


def conditions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return linalg.cond(x), *(linalg.cond(x, order) for order in ORDERS)


def ranks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return linalg.matrix_rank(x), linalg.matrix_rank(x, rtol=0.3), linalg.matrix_rank(x, atol=2.0)


@cases(
    *(case(rebuilt, x, name=f"svd {tuple(x.shape)}") for x in (A, TALL, WIDE)),
    case(recomposed, SYMMETRIC),
    case(norms, A),
    case(conditions, A),
    case(ranks, TALL),
    case(linalg.matrix_rank, torch.ones(2, 0, 3), name="matrix_rank of nothing"),
    case(lambda x: linalg.matrix_rank(x, hermitian=True), POSITIVE, name="matrix_rank, hermitian"),
    case(lambda x: torch.pinverse(x, 0.3), TALL, name="pinverse"),
    case(lambda x: linalg.eigvalsh(x, UPLO="U"), A, name="eigvalsh of the upper triangle"),
    case(linalg.svdvals, LOW_RANK),
    case(linalg.matrix_rank, LOW_RANK),
    *(case(linalg.pinv, x, name=f"pinv {tuple(x.shape)}") for x in (A, TALL, LOW_RANK)),
    *(case(least_squares, x, torch.randn(*x.shape[:-1], 2), name=f"lstsq {tuple(x.shape)}") for x in (A, TALL, WIDE)),
    case(lambda a, b: linalg.lstsq(a, b, rcond=1e-4)[::2], LOW_RANK, torch.randn(6, 2), name="lstsq, not of full rank"),
    case(lambda a, b: linalg.lstsq(a, b).solution, TALL, torch.randn(3, 6), name="lstsq, of vectors"),
    case(lambda a, b: linalg.lstsq(a, b).solution, TALL[..., :0], torch.randn(*TALL.shape[:-1], 2), name="lstsq, of no columns"),
    case(lambda a, b: linalg.lstsq(a, b).solution, A[:0], A[:0], name="lstsq, of no matrices"),
    case(lambda x: linalg.pinv(x, hermitian=True), SYMMETRIC, name="pinv, hermitian"),
    case(lambda x: linalg.pinv(x, rtol=0.5), A, name="pinv, rtol"),
    case(linalg.matrix_exp, A / 4),
    case(linalg.matrix_exp, torch.randn(3, 3, 3) * 3, name="matrix_exp of large ones"),
    case(lambda x: linalg.matrix_power(x, -3), A, name="matrix_power"),
    case(lambda x: tuple(linalg.matrix_power(x, n) for n in (0, 1, 2, 3, 5, 6)), A[0], name="matrix powers"),
    case(lambda x: (torch.matrix_power(x, 0), torch.matrix_power(x, -2)), A, name="matrix powers of a batch"),
)
def test_spectra(check):
    check()


def regular(batch: int, n: int) -> torch.Tensor:
    return torch.randn(batch, n, n) + 2 * n * torch.eye(n)


def positive(batch: int, n: int) -> torch.Tensor:
    x = regular(batch, n)
    return x @ x.mT


def by_equations(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return linalg.inv(x), linalg.solve(x, b), linalg.solve(x[0], b), linalg.det(x), *linalg.slogdet(x), *triangles(x, b)


def by_factors(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, r = linalg.qr(x)
    return *linalg.lu(x), *linalg.lu_factor(x), q, r, linalg.qr(x, mode="complete")[1], q.mT @ q


def by_values(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    inverses = linalg.pinv(x), torch.pinverse(x, 1e-15)
    return *rebuilt(x)[:2], *rebuilt(x)[-2:], *inverses, linalg.matrix_rank(x), linalg.svdvals(x), linalg.cond(x)


def by_symmetry(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    factor = linalg.cholesky(x)
    values, vectors = linalg.eigh(x)
    rebuilt = vectors * values.unsqueeze(-2) @ vectors.mT
    return (
        factor,
        torch.cholesky_solve(b, factor),
        torch.cholesky_inverse(factor),
        rebuilt,
        values,
        linalg.pinv(x, hermitian=True),
    )


SQUARE = [(2, 4), (1, 1), (3, 2), (2, 5), (1, 7)]
RECTANGLES = [(2, 5, 3), (1, 3, 5), (2, 4, 4), (1, 1, 3), (3, 2, 1), (1, 1, 1), (2, 2, 6)]
DYNAMIC = [
    (by_equations, [(regular(*size), torch.randn(*size, 2)) for size in SQUARE]),
    (by_lu, [(regular(*size), torch.randn(*size, 2)) for size in SQUARE]),
    (by_symmetry, [(positive(*size), torch.randn(*size, 2)) for size in SQUARE]),
    (linalg.matrix_exp, [(torch.randn(batch, n, n),) for batch, n in SQUARE]),
    (by_factors, [(torch.randn(*size),) for size in RECTANGLES]),
    (by_factors, [(torch.randn(*size[1:]),) for size in RECTANGLES]),
    (by_values, [(torch.randn(*size),) for size in RECTANGLES]),
    (lambda a, b: linalg.lstsq(a, b).solution, [(torch.randn(*size), torch.randn(*size[:2], 2)) for size in RECTANGLES]),
    (
        lambda a, b: (*linalg.lstsq(a, b, driver="gels"), *linalg.lstsq(a, b, driver="gelsd")),
        [(torch.randn(m, n), torch.randn(m, 2)) for m, n in ((4, 3), (5, 2), (6, 4))],
    ),
    (lambda x: linalg.tensorinv(x, 2), [(regular(1, m * n).reshape(m, n, m * n),) for m, n in ((2, 3), (1, 2), (2, 2), (1, 1))]),
    (linalg.tensorsolve, [(regular(1, m * n).reshape(m, n, m * n), torch.randn(m, n)) for m, n in ((2, 3), (1, 2), (1, 1))]),
]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [pytest.param(13, marks=pytest.mark.full), 20])
@pytest.mark.parametrize(("function", "inputs"), DYNAMIC)
def test_sizes_of_the_run(function: Callable[..., Any], inputs: Any, opset: int, capture: str) -> None:
    shapes = tuple({axis: torch.export.Dim.DYNAMIC for axis in range(x.dim()) if x.shape[axis] > 1} for x in inputs[0])
    program = onnxexp.export(function, inputs[0], capture=capture, opset_version=opset, dynamic_shapes=shapes)
    for args in inputs:
        expected = function(*(x.double() for x in args))
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = program(*args)
        for one, other in zip(expected, found if isinstance(found, tuple) else (found,), strict=True):
            torch.testing.assert_close(other, one.to(other.dtype), rtol=1e-3, atol=1e-4)


def test_sizes_that_depend_on_values_are_declined() -> None:
    with pytest.raises(
        onnxexp.OnnxExporterError, match="depends on values, not on sizes; to fix this, give it a fixed size there"
    ):
        onnxexp.export(lambda x: linalg.qr(x[x[:, 0] > 0]), (torch.randn(6, 3),), capture="export")
