"""Logarithm and derivatives of the gamma function, and related functions.

Sources: Lanczos approximation with g = 7 and nine terms; DLMF 5.5.3 and 5.15.6 (reflection), 25.11.5 (Euler-Maclaurin),
5.11.2 (asymptotic series).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import fmod
from onnxexp_aten.math.comparison_and_bitwise import relate
from onnxexp_aten.math.to_float64 import equal_float64, in_float64, polynomial, sum_of_terms, where_float64
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.type_promotion import to_float
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")

_LANCZOS = (
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
_LANCZOS_FIRST = 0.99999999999980993
_DIGAMMA = (-1 / 240, 1 / 252, -1 / 120, 1 / 12)
"""Coefficients of digamma's asymptotic series in 1/x², highest power first.

The terms log(x) - 1/2x are left out.
"""

_SHIFT = 8
"""Shift of digamma's argument; its series is then exact to 1e-11."""

_ZETA = (1 / 12, -1 / 720, 1 / 30240)
"""Bernoulli numbers B2k over (2k)!, enough for 1e-12 after `_TERMS` terms."""

_TERMS = 20
"""Terms of zeta's series before the asymptotic expansion.

The result is less exact left of -10.
"""


@in_float64(table, "lgamma", "special_gammaln", schema="lgamma(Tensor self) -> Tensor")
def log_gamma(op: Builder, x: Tensor) -> Tensor:
    """Compute log|gamma(x)| in float64: infinite at 0 and at negative integers."""
    x = op.Max(x, -1e300)  # fmod of minus infinity is NaN
    mirrored = _lanczos(op, op.Abs(op.Sub(x, 0.5)))
    sine = op.Abs(op.Sin(_reduced_angle(op, x)))
    reflected = op.Sub(math.log(math.pi), op.Add(op.Log(sine), mirrored))
    return where_float64(op, op.Less(x, 0.5), reflected, mirrored)


def _reduced_angle(op: Builder, x: Tensor) -> Tensor:
    """Compute pi * x up to a multiple of pi, exactly 0 for integers."""
    return op.Mul(fmod(op, x, 1.0), math.pi)


def _lanczos(op: Builder, x: Tensor) -> Tensor:
    """Compute log(gamma(x + 1/2)) for x >= 0.

    Constant addends are factors in the logarithm.
    """
    factor = math.sqrt(2 * math.pi) * math.exp(-7)
    offsets = [k + 0.5 for k in range(len(_LANCZOS))]
    series = sum_of_terms(op, x, offsets, op.Reciprocal, [number * factor for number in _LANCZOS])
    leading = op.Mul(x, op.Sub(op.Log(op.Add(x, 7.0)), 1.0))
    return op.Add(leading, op.Log(op.Add(series, _LANCZOS_FIRST * factor)))


@in_float64(table, "digamma", "special_digamma", "special_psi", schema="digamma(Tensor self) -> Tensor")
def digamma(op: Builder, x: Tensor) -> Tensor:
    """Compute the derivative of log gamma: infinite at 0, NaN at negative integers."""
    offset = op.Abs(op.Sub(x, 0.5))
    inverse = op.Reciprocal(op.Add(offset, _SHIFT + 0.5))
    series = op.Mul(polynomial(op, op.Mul(inverse, inverse), _DIGAMMA), inverse)
    result = op.Add(op.Log(inverse), op.Mul(op.Add(series, 0.5), inverse))
    result = op.Neg(op.Add(result, sum_of_terms(op, offset, [number + 0.5 for number in range(_SHIFT)], op.Reciprocal)))
    angle = _reduced_angle(op, x)
    cotangent = op.Div(op.Sin(op.Add(angle, math.pi / 2)), op.Sin(angle))
    result = where_float64(op, op.Less(x, 0.5), op.Sub(result, op.Mul(cotangent, math.pi)), result)
    return where_float64(op, op.And(equal_float64(op, angle, 0.0), op.Less(x, 0.0)), math.nan, result)


@in_float64(
    table,
    "special_zeta",
    "special_zeta.self_scalar",
    "special_zeta.other_scalar",
    schema="special_zeta(Tensor self, Tensor other) -> Tensor",
)
def zeta(op: Builder, s: Tensor, q: Tensor) -> Tensor:
    """Compute Hurwitz zeta, the sum of 1 / (q + k)^s for k = 0, 1, …: NaN for s < 1."""
    rank = max(rank_of(op, s), rank_of(op, q))
    exponent = op.Neg(s)
    terms = op.Add(unsqueezed(op, q, [rank_of(op, q)]), op.constant(torch.arange(_TERMS, dtype=torch.float64)))
    result = op.ReduceSum(op.Pow(terms, unsqueezed(op, exponent, [rank_of(op, s)])), axes=[rank], keepdims=0)
    end = op.Add(q, float(_TERMS))
    inverse = op.Reciprocal(op.Mul(end, end))
    tail = op.constant(_ZETA[-1], torch.float64)
    for number in range(len(_ZETA) - 2, -1, -1):  # (s + n)(s + n + 1) is s(s + 2n + 1) + n(n + 1)
        n = 2 * number + 1
        step = op.Add(op.Mul(op.Add(s, 2.0 * n + 1), s), float(n * (n + 1)))
        tail = op.Add(op.Mul(op.Mul(tail, step), inverse), _ZETA[number])
    correction = op.Add(op.Add(op.Div(end, op.Sub(s, 1.0)), 0.5), op.Mul(op.Div(s, end), tail))
    return _with_special_values(op, s, q, op.Add(result, op.Mul(op.Pow(end, exponent), correction)))


def _zeta_of_integer(op: Builder, s: int, q: Tensor) -> Tensor:
    """Compute Hurwitz zeta for an integer s > 1 known at export, except at its poles."""
    exponent = op.constant(-s, torch.float64)
    result = sum_of_terms(op, q, range(_TERMS), lambda terms: op.Pow(terms, exponent))
    end = op.Add(q, float(_TERMS))
    inverse = op.Reciprocal(end)
    coefficients = [coefficient * math.prod(range(s, s + 2 * number + 1)) for number, coefficient in enumerate(_ZETA)]
    tail = op.Mul(polynomial(op, op.Mul(inverse, inverse), coefficients[::-1]), inverse)
    correction = op.Add(op.Add(op.Div(end, s - 1.0), 0.5), tail)
    return op.Add(result, op.Mul(op.Pow(end, exponent), correction))


def _not_positive(op: Builder, q: Tensor) -> Tensor:
    return relate(op, "LessOrEqual", q, op.constant(0.0, torch.float64))


def _infinite_at_poles(op: Builder, q: Tensor, below: Tensor, result: Tensor) -> Tensor:
    """Replace the result by infinity at 0 and at negative integers."""
    return where_float64(op, op.And(below, equal_float64(op, op.Floor(q), q)), math.inf, result)


def _with_special_values(op: Builder, s: Tensor, q: Tensor, result: Tensor) -> Tensor:
    """Replace the result where the series diverges or is undefined."""
    below = _not_positive(op, q)
    result = where_float64(op, op.And(below, op.Less(op.Floor(s), s)), math.nan, result)
    result = where_float64(op, op.Less(s, 1.0), math.nan, _infinite_at_poles(op, q, below, result))
    return where_float64(op, equal_float64(op, s, 1.0), math.inf, result)


@table("polygamma", "special_polygamma")
def polygamma(op: Builder, n: int, self: Tensor) -> Tensor:
    """polygamma(int n, Tensor self) -> Tensor"""
    x = to_float(op, self)
    wide = op.cast(x, torch.float64)
    if n == 0:
        return op.cast(digamma(op, wide), x.dtype)
    if n == 1:
        return op.cast(_trigamma(op, wide), x.dtype)
    scale = math.factorial(n) * (1.0 if n % 2 else -1.0)
    series = _infinite_at_poles(op, wide, _not_positive(op, wide), _zeta_of_integer(op, n + 1, wide))
    return op.cast(op.Mul(series, scale), x.dtype)


def _trigamma(op: Builder, x: Tensor) -> Tensor:
    series = _zeta_of_integer(op, 2, op.Max(x, op.Sub(1.0, x)))
    series = where_float64(op, equal_float64(op, x, math.inf), 0.0, series)  # eager has NaN for all other orders
    ratio = op.Div(math.pi, op.Sin(_reduced_angle(op, x)))
    return where_float64(op, op.Less(x, 0.5), op.Sub(op.Mul(ratio, ratio), series), series)


@in_float64(table, "special_gammaincc", "igammac", schema="igammac(Tensor self, Tensor other) -> Tensor")
def gamma_upper(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """Compute the regularized upper incomplete gamma function."""
    return op.Sub(1.0, gamma_lower(op, a, x))


_MAX_ROUNDS = 20_000
"""Most rounds of the power series; enough for a and x up to about a million."""


@in_float64(table, "special_gammainc", "igamma", schema="igamma(Tensor self, Tensor other) -> Tensor")
def gamma_lower(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """Compute the regularized lower incomplete gamma function.

    The power series is DLMF 8.11.4.
    """

    def body(_: Tensor, step: Tensor, term: Tensor, total: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        step = op.Add(step, 1.0)
        term = op.Mul(term, op.Div(x, step))
        return None, [step, term, op.Add(total, term)], []

    is_one = op.Greater(x, op.Add(a, op.Add(op.Mul(op.Sqrt(op.Abs(a)), 10.0), 40.0)))  # the result is 1 here
    bounded = where_float64(op, is_one, a, x)
    first_term = op.Exp(op.Sub(op.Sub(op.Mul(a, op.Log(bounded)), bounded), _lanczos(op, op.Add(a, 0.5))))
    total = op.loop(_rounds(op, a, bounded), None, body, [a, first_term, first_term])[2]
    result = where_float64(op, equal_float64(op, x, 0.0), 0.0, where_float64(op, is_one, 1.0, op.Min(total, 1.0)))
    result = where_float64(op, equal_float64(op, a, 0.0), where_float64(op, op.Greater(x, 0.0), 1.0, math.nan), result)
    return where_float64(op, op.Less(a, 0.0), math.nan, result)


def _rounds(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """Count the rounds after which the terms of every element are negligible.

    The terms grow up to round x - a, then fall like a bell curve of width sqrt(x).
    """
    rounds = op.Add(op.Max(op.Sub(x, a), 0.0), op.Add(op.Mul(op.Sqrt(x), 8.0), 16.0))
    without_nan = where_float64(op, op.Greater(rounds, 0.0), rounds, 0.0)  # replaces NaN
    largest = op.ReduceMax(op.Concat(op.Reshape(without_nan, [-1]), op.constant([0.0], torch.float64), axis=0), keepdims=0)
    return op.cast(op.Min(largest, float(_MAX_ROUNDS)), torch.int64)


@table("mvlgamma", "special_multigammaln")
def mvlgamma(op: Builder, self: Tensor, p: int) -> Tensor:
    """mvlgamma(Tensor self, int p) -> Tensor"""
    x = to_float(op, self)
    wide = op.cast(x, torch.float64)
    offsets = [-number / 2 for number in range(p)]
    total = log_gamma(op, wide) if p == 1 else sum_of_terms(op, wide, offsets, lambda x: log_gamma(op, x))
    return op.cast(op.Add(total, p * (p - 1) / 4 * math.log(math.pi)), x.dtype)
