"""The gamma function's family: its logarithm, that one's derivatives, and Hurwitz' zeta function.

Sources: Lanczos' approximation with g = 7 and nine terms; DLMF 5.5.3 and 5.15.6 (reflection), 5.11.2 (asymptotic series),
25.11.5 (Euler-Maclaurin).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of, to_float
from onnxexp_aten.layout import unsqueezed
from onnxexp_aten.wide import choose, in_float64, polynomial, same, sin_pi, summed

__all__ = ["log_gamma"]

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
_DIGAMMA = (-1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)
"""Of the asymptotic series in 1/x², highest power first, after log(x) - 1/2x."""

_ZETA = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
"""Bernoulli's numbers B2k over (2k)!."""

_TERMS = 20
"""So many terms of zeta's series are summed before the asymptotic expansion takes over; left of -10 it is less exact."""

_SHIFT = 8
"""Digamma is computed so far to the right, where its asymptotic series is exact to 1e-13."""


@in_float64("lgamma", "special_gammaln", schema="lgamma(Tensor self) -> Tensor")
def log_gamma(op: Builder, x: Tensor) -> Tensor:
    """log|gamma(x)| of a float64 tensor; infinite at 0, -1, -2, ..."""
    left = op.Less(x, 0.5)
    right = choose(op, left, op.Sub(1.0, x), x)
    result = _lanczos(op, op.Sub(right, 1.0))
    reflected = op.Sub(op.Sub(math.log(math.pi), op.Log(op.Abs(sin_pi(op, x)))), result)
    result = choose(op, left, reflected, result)
    return choose(op, op.Greater(op.Abs(x), 1e300), math.inf, result)


def _lanczos(op: Builder, x: Tensor) -> Tensor:
    """log(gamma(x + 1)) for x >= -0.5."""
    series = summed(op, x, range(1, len(_LANCZOS) + 1), op.Reciprocal, _LANCZOS)
    series = op.Add(series, 0.99999999999980993)
    base = op.Add(x, 7.5)
    grown = op.Sub(op.Mul(op.Add(x, 0.5), op.Log(base)), base)
    return op.Add(op.Add(grown, 0.5 * math.log(2 * math.pi)), op.Log(series))  # type: ignore[no-any-return]


@in_float64("digamma", "special_digamma", "special_psi", schema="digamma(Tensor self) -> Tensor")
def digamma(op: Builder, x: Tensor) -> Tensor:
    """The derivative of log gamma; NaN at -1, -2, ..., infinite at 0."""
    left = op.Less(x, 0.5)
    right = choose(op, left, op.Sub(1.0, x), x)
    far = op.Add(right, float(_SHIFT))
    inverse = op.Div(1.0, op.Mul(far, far))
    result = op.Add(op.Sub(op.Log(far), op.Div(0.5, far)), op.Mul(polynomial(op, inverse, _DIGAMMA), inverse))
    result = op.Sub(result, summed(op, right, range(_SHIFT), op.Reciprocal))
    part = op.Mul(op.Sub(x, op.Floor(x)), math.pi)
    cotangent = op.Div(op.Cos(part), op.Sin(part))
    result = choose(op, left, op.Sub(result, op.Mul(cotangent, math.pi)), result)
    whole = same(op, op.Floor(x), x)
    result = choose(op, op.And(whole, op.Less(x, 0.0)), math.nan, result)
    return choose(op, same(op, x, 0.0), -math.inf, result)


@in_float64(
    "special_zeta",
    "special_zeta.self_scalar",
    "special_zeta.other_scalar",
    schema="special_zeta(Tensor self, Tensor other) -> Tensor",
)
def zeta(op: Builder, s: Tensor, q: Tensor) -> Tensor:
    """The sum of 1 / (q + k)^s over k = 0, 1, ...; `s` > 1, else NaN (infinite for 1)."""
    rank = max(rank_of(op, s), rank_of(op, q))
    exponent = op.Neg(s)
    terms = op.Add(unsqueezed(op, q, [rank_of(op, q)]), op.constant(torch.arange(_TERMS, dtype=torch.float64)))
    result = op.ReduceSum(op.Pow(terms, unsqueezed(op, exponent, [rank_of(op, s)])), axes=[rank], keepdims=0)
    end = op.Add(q, float(_TERMS))
    last = op.Pow(end, exponent)
    result = op.Add(result, op.Add(op.Div(op.Mul(last, end), op.Sub(s, 1.0)), op.Mul(last, 0.5)))
    inverse = op.Reciprocal(op.Mul(end, end))
    square, tail = op.Mul(s, s), op.constant(_ZETA[-1], torch.float64)
    for number in range(len(_ZETA) - 2, -1, -1):  # (s + n)(s + n + 1) is s² + (2n + 1)s + n(n + 1)
        n = 2 * number + 1
        step = op.Add(op.Add(square, op.Mul(s, 2.0 * n + 1)), float(n * (n + 1)))
        tail = op.Add(op.Mul(op.Mul(tail, step), inverse), _ZETA[number])
    result = op.Add(result, op.Mul(op.Div(op.Mul(last, s), end), tail))
    return _outside(op, s, q, result)


def _zeta_of_whole(op: Builder, s: int, q: Tensor) -> Tensor:
    """The same for a number above 1 that is known."""
    result = summed(op, q, range(_TERMS), lambda terms: op.Pow(terms, op.constant(-s, torch.float64)))
    end = op.Add(q, float(_TERMS))
    last, inverse = op.Pow(end, op.constant(-s, torch.float64)), op.Reciprocal(end)
    coefficients = [coefficient * math.prod(range(s, s + 2 * number + 1)) for number, coefficient in enumerate(_ZETA)]
    tail = op.Mul(polynomial(op, op.Mul(inverse, inverse), coefficients[::-1]), inverse)
    around = op.Add(op.Add(op.Div(end, s - 1.0), 0.5), tail)
    pole = op.And(op.Not(op.Greater(q, 0.0)), same(op, op.Floor(q), q))
    return choose(op, pole, math.inf, op.Add(result, op.Mul(last, around)))


def _outside(op: Builder, s: Tensor, q: Tensor, result: Tensor) -> Tensor:
    """Where the series has no value."""
    below = op.Not(op.Greater(q, 0.0))
    result = choose(op, op.And(below, op.Not(same(op, op.Floor(s), s))), math.nan, result)
    result = choose(op, op.And(below, same(op, op.Floor(q), q)), math.inf, result)
    result = choose(op, op.Less(s, 1.0), math.nan, result)
    return choose(op, same(op, s, 1.0), math.inf, result)


@aten("polygamma", "special_polygamma")
def polygamma(op: Builder, n: int, self: Tensor) -> Tensor:
    """polygamma(int n, Tensor self) -> Tensor"""
    x = to_float(op, self)
    wide = op.cast(x, torch.float64)
    if n == 0:
        return op.cast(digamma(op, wide), x.dtype)
    if n == 1:
        return op.cast(_trigamma(op, wide), x.dtype)
    scale = math.factorial(n) * (1.0 if n % 2 else -1.0)
    return op.cast(op.Mul(_zeta_of_whole(op, n + 1, wide), scale), x.dtype)


def _trigamma(op: Builder, x: Tensor) -> Tensor:
    left = op.Less(x, 0.5)
    series = _zeta_of_whole(op, 2, choose(op, left, op.Sub(1.0, x), x))
    ratio = op.Div(math.pi, sin_pi(op, x))
    return choose(op, left, op.Sub(op.Mul(ratio, ratio), series), series)


@in_float64("special_gammaincc", "igammac", schema="igammac(Tensor self, Tensor other) -> Tensor")
def gamma_upper(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function."""
    return op.Sub(1.0, gamma_lower(op, a, x))  # type: ignore[no-any-return]


_ROUNDS = 200
"""Of the power series: enough for a, x up to about 100 in float32's accuracy."""


@in_float64("special_gammainc", "igamma", schema="igamma(Tensor self, Tensor other) -> Tensor")
def gamma_lower(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function, by its power series (DLMF 8.11.4)."""

    def body(number: Tensor, term: Tensor, total: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        step = op.Add(op.Add(op.cast(number, torch.float64), 1.0), a)
        term = op.Mul(term, op.Div(x, step))
        return None, [term, op.Add(total, term)], []

    first = op.Div(op.Add(op.Mul(x, 0.0), 1.0), a)
    total = op.loop(_ROUNDS, None, body, [first, first])[1]
    scale = op.Exp(op.Sub(op.Sub(op.Mul(a, op.Log(x)), x), log_gamma(op, a)))
    result = op.Mul(scale, total)
    result = choose(op, same(op, x, 0.0), 0.0, op.Min(result, op.constant(1.0, torch.float64)))
    result = choose(op, op.And(same(op, a, 0.0), op.Greater(x, 0.0)), 1.0, result)
    invalid = op.Or(op.Or(op.Less(a, 0.0), op.Less(x, 0.0)), op.And(same(op, a, 0.0), same(op, x, 0.0)))
    return choose(op, invalid, math.nan, result)


@aten("mvlgamma", "special_multigammaln")
def mvlgamma(op: Builder, self: Tensor, p: int) -> Tensor:
    """mvlgamma(Tensor self, int p) -> Tensor"""
    x = to_float(op, self)
    wide = op.cast(x, torch.float64)
    places = [-number / 2 for number in range(p)]
    total = log_gamma(op, wide) if p == 1 else summed(op, wide, places, lambda x: log_gamma(op, x))
    return op.cast(op.Add(total, p * (p - 1) / 4 * math.log(math.pi)), x.dtype)
