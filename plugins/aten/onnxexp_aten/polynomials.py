"""Orthogonal polynomials whose degree is a tensor, by their recurrences in a loop; and the Airy function.

Sources: DLMF 18.9 (recurrences), 9.4 and 9.7 (Airy's function: series and asymptotic expansions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.wide import choose, in_float64, polynomial, same

__all__: list[str] = []

Step = Callable[[Builder, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(op, x, k, the polynomial of degree k, that of degree k - 1) -> that of degree k + 1."""


def _chebyshev(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return op.Sub(op.Mul(op.Mul(x, 2.0), now), before)  # type: ignore[no-any-return]


def _hermite_h(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return op.Mul(op.Sub(op.Mul(x, now), op.Mul(k, before)), 2.0)  # type: ignore[no-any-return]


def _hermite_he(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return op.Sub(op.Mul(x, now), op.Mul(k, before))  # type: ignore[no-any-return]


def _laguerre(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    grown = op.Mul(op.Sub(op.Add(op.Mul(k, 2.0), 1.0), x), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))  # type: ignore[no-any-return]


def _legendre(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    grown = op.Mul(op.Mul(op.Add(op.Mul(k, 2.0), 1.0), x), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))  # type: ignore[no-any-return]


_FAMILIES: Mapping[str, tuple[float, float, Step]] = MappingProxyType(
    {
        "chebyshev_polynomial_t": (1, 0, _chebyshev),
        "chebyshev_polynomial_u": (2, 0, _chebyshev),
        "chebyshev_polynomial_v": (2, -1, _chebyshev),
        "chebyshev_polynomial_w": (2, 1, _chebyshev),
        "hermite_polynomial_h": (2, 0, _hermite_h),
        "hermite_polynomial_he": (1, 0, _hermite_he),
        "laguerre_polynomial_l": (-1, 1, _laguerre),
        "legendre_polynomial_p": (1, 0, _legendre),
    }
)
"""The polynomial of degree 1 (its slope and its value at 0), and the recurrence."""


def _orthogonal(op: Builder, x: Tensor, degree: Tensor, slope: float, offset: float, step: Step) -> Tensor:
    """Of degree 0 it is 1, of a negative one 0."""
    n = op.cast(op.cast(degree, torch.int64), torch.float64)
    x = op.Add(x, op.Sub(n, n))
    one = op.Add(op.Sub(n, n), op.Sub(1.0, op.Mul(x, 0.0)))
    first = op.Add(op.Mul(x, slope), offset)

    def body(index: Tensor, before: Tensor, now: Tensor, found: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        k = op.Add(op.cast(index, torch.float64), 1.0)
        then = step(op, x, k, now, before)
        return None, [now, then, choose(op, same(op, n, op.Add(k, 1.0)), then, found)], []

    start = choose(op, same(op, n, 0.0), one, choose(op, same(op, n, 1.0), first, op.Mul(x, 0.0)))
    highest = op.ReduceMax(op.Reshape(n, [-1]), keepdims=0)
    rounds = op.cast(op.Max(op.Sub(highest, 1.0), 0.0), torch.int64)
    return op.loop(rounds, None, body, [one, first, start])[2]


def _register(name: str, slope: float, offset: float, step: Step, *, shifted: bool) -> None:
    def symbolic(op: Builder, x: Tensor, n: Tensor) -> Tensor:
        x = op.Sub(op.Mul(x, 2.0), 1.0) if shifted else x
        return _orthogonal(op, x, n, slope, offset, step)

    full = f"special_{'shifted_' if shifted else ''}{name}"
    in_float64(full, f"{full}.x_scalar", f"{full}.n_scalar", schema=f"{full}(Tensor x, Tensor n) -> Tensor")(symbolic)


for _name, (_slope, _offset, _step) in _FAMILIES.items():
    _register(_name, _slope, _offset, _step, shifted=False)
    if _name.startswith("chebyshev"):
        _register(_name, _slope, _offset, _step, shifted=True)


# Airy's function

_AIRY_AT_0, _AIRY_SLOPE = 0.355028053887817239, 0.258819403792806799
_AIRY_FAR = 6.0
"""Beyond, the asymptotic expansions are exact to 1e-8; within, the series loses seven of float64's digits at most."""


def _series(first: float, last: int) -> list[float]:
    """Of the series in (x / 6)³ whose coefficients divide by (3k + first - 1)(3k + first), highest power first.

    Not in x³: ONNX Runtime takes two float64 constants for one where they are equal in float32, as two that underflow are.
    """
    coefficients = [1.0]
    for k in range(1, last):
        coefficients.append(coefficients[-1] * _AIRY_FAR**3 / ((3 * k + first - 1) * (3 * k + first)))
    return coefficients[::-1]


def _expansion(last: int) -> list[float]:
    """u_0, u_1, ... of DLMF 9.7.2."""
    numbers = [1.0]
    for k in range(1, last):
        numbers.append(numbers[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return numbers


@in_float64("special_airy_ai", schema="special_airy_ai(Tensor x) -> Tensor")
def airy(op: Builder, x: Tensor) -> Tensor:
    """Ai(x)"""
    near = op.Max(op.Min(x, _AIRY_FAR), -_AIRY_FAR)
    part = op.Div(near, _AIRY_FAR)
    cube = op.Mul(op.Mul(part, part), part)
    even, odd = polynomial(op, cube, _series(0, 30)), op.Mul(polynomial(op, cube, _series(1, 30)), near)
    middle = op.Sub(op.Mul(even, _AIRY_AT_0), op.Mul(odd, _AIRY_SLOPE))
    size = op.Max(op.Abs(x), _AIRY_FAR)
    root = op.Sqrt(size)
    zeta = op.Mul(op.Mul(size, root), 2 / 3)
    scale = op.Div(1 / math.sqrt(math.pi), op.Sqrt(root))
    numbers = _expansion(10)  # an even count: the last is of an odd index
    decaying = polynomial(op, op.Div(-1.0, zeta), numbers[::-1])
    right = op.Mul(op.Mul(op.Mul(decaying, op.Exp(op.Neg(zeta))), scale), 0.5)
    square = op.Div(-1.0, op.Mul(zeta, zeta))
    angle = op.Sub(zeta, math.pi / 4)
    along = op.Mul(op.Cos(angle), polynomial(op, square, numbers[-2::-2]))
    across = op.Mul(op.Sin(angle), op.Div(polynomial(op, square, numbers[::-2]), zeta))
    left = op.Mul(op.Add(along, across), scale)
    result = choose(op, op.Greater(x, _AIRY_FAR), right, middle)
    return choose(op, op.Less(x, -_AIRY_FAR), left, result)
