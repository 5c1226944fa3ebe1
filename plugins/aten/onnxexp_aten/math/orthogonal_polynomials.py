"""Orthogonal polynomials with a tensor as degree, and the Airy function.

The polynomials run their recurrences in a loop. Sources: DLMF 18.9 (recurrences), 9.4 and 9.7 (series and asymptotic
expansions of Airy's function).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.to_float64 import in_float64, polynomials, where_float64
from onnxexp_aten.support.constant_of_shape import full_of, sizes_like
from onnxexp_aten.support.read_arguments import truncate_like_torch
from onnxexp_aten.support.type_promotion import promoted_dtype

table = SymbolicTable("aten")

Step = Callable[[Builder, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Recurrence step: (op, x, int64 k, P(k), P(k - 1)) -> P(k + 1)."""


def _chebyshev(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return op.Sub(op.Mul(op.Mul(x, 2.0), now), before)


def _hermite_h(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    k = op.cast(k, torch.float64)
    return op.Mul(op.Sub(op.Mul(x, now), op.Mul(k, before)), 2.0)


def _hermite_he(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    k = op.cast(k, torch.float64)
    return op.Sub(op.Mul(x, now), op.Mul(k, before))


def _laguerre(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    k = op.cast(k, torch.float64)
    grown = op.Mul(op.Sub(op.Add(op.Mul(k, 2.0), 1.0), x), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))


def _legendre(op: Builder, x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    k = op.cast(k, torch.float64)
    grown = op.Mul(op.Mul(op.Add(op.Mul(k, 2.0), 1.0), x), now)
    return op.Div(op.Sub(grown, op.Mul(k, before)), op.Add(k, 1.0))


_FAMILIES: Mapping[str, tuple[int, int, Step]] = MappingProxyType(
    {
        "chebyshev_polynomial_t": (1, 0, _chebyshev),
        "chebyshev_polynomial_u": (0, 0, _chebyshev),
        "chebyshev_polynomial_v": (0, 1, _chebyshev),
        "chebyshev_polynomial_w": (0, -1, _chebyshev),
        "hermite_polynomial_h": (0, 0, _hermite_h),
        "hermite_polynomial_he": (0, 0, _hermite_he),
        "laguerre_polynomial_l": (0, 0, _laguerre),
        "legendre_polynomial_p": (0, 0, _legendre),
    }
)
"""Slope and value at 0 of the polynomial of degree -1, and the recurrence."""


def _orthogonal(op: Builder, x: Tensor, n: Tensor, slope: int, offset: int, step: Step) -> Tensor:
    """Compute the polynomial of int64 degree `n`: 1 for degree 0, 0 for negative `n`."""
    one = full_of(op, sizes_like(op, x), 1.0, torch.float64)
    before = x if slope else op.Mul(one, float(offset)) if offset != 1 else one

    def body(index: Tensor, before: Tensor, now: Tensor, found: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        then = step(op, x, index, now, before)
        return None, [now, then, op.Where(op.Equal(n, op.Add(index, 1)), then, found)], []

    start = where_float64(op, op.Equal(n, 0), one, 0.0)
    rounds = op.ReduceMax(n, keepdims=0) if n.rank != 0 else n
    return op.loop(rounds, None, body, [before, one, start])[2]


def _register(name: str, slope: int, offset: int, step: Step, *, shifted: bool) -> None:
    def symbolic(op: Builder, x: Any, n: Any) -> Tensor:
        dtype = promoted_dtype(x, n, floating=True)
        wide = op.cast(x, torch.float64)
        wide = op.Sub(op.Mul(wide, 2.0), 1.0) if shifted else wide
        degree = op.cast(truncate_like_torch(n, torch.int64), torch.int64)
        return op.cast(_orthogonal(op, wide, degree, slope, offset, step), dtype)

    full = f"special_{'shifted_' if shifted else ''}{name}"
    symbolic.__doc__ = f"{full}(Tensor x, Tensor n) -> Tensor, computed in float64"
    symbolic.__name__ = full
    table(full, f"{full}.x_scalar", f"{full}.n_scalar")(symbolic)


for _name, (_slope, _offset, _step) in _FAMILIES.items():
    _register(_name, _slope, _offset, _step, shifted=False)
    if _name.startswith("chebyshev"):
        _register(_name, _slope, _offset, _step, shifted=True)


# Airy's function

_AIRY_AT_0, _AIRY_SLOPE = 0.355028053887817239, 0.258819403792806799
_AIRY_FAR = 6.0
"""Bound between series and asymptotic expansions.

Beyond it the expansions are exact to 1e-8. Within it the series loses at most seven of float64's digits.
"""


def _series(first: float, last: int) -> list[float]:
    """List the coefficients of the series in (x / 6)³, highest power first.

    Each coefficient divides its predecessor by (3k + first - 1)(3k + first). The scale matters: in x³ the last coefficients
    underflow in float32, and ONNX Runtime merges float64 constants that are equal in float32.
    """
    coefficients = [1.0]
    for k in range(1, last):
        coefficients.append(coefficients[-1] * _AIRY_FAR**3 / ((3 * k + first - 1) * (3 * k + first)))
    return coefficients[::-1]


def _expansion(last: int) -> list[float]:
    """List the coefficients u_0, u_1, … of DLMF 9.7.2."""
    numbers = [1.0]
    for k in range(1, last):
        numbers.append(numbers[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return numbers


@in_float64(table, "special_airy_ai", schema="special_airy_ai(Tensor x) -> Tensor")
def airy(op: Builder, x: Tensor) -> Tensor:
    """Compute the Airy function Ai(x)."""
    near = op.Max(op.Min(x, _AIRY_FAR), -_AIRY_FAR)
    part = op.Div(near, _AIRY_FAR)
    cube = op.Mul(op.Mul(part, part), part)
    even, odd = _series(0, 26), [-_AIRY_SLOPE * number for number in _series(1, 26)]
    even = [_AIRY_AT_0 * number for number in even]
    one, other, first, second = polynomials(op, op.Mul(cube, cube), (even[1::2], even[::2], odd[1::2], odd[::2]))
    middle = op.Add(one, op.Mul(op.Add(op.Mul(second, cube), first), near))
    middle = op.Add(middle, op.Mul(other, cube))
    size = op.Max(op.Abs(x), _AIRY_FAR)
    root = op.Sqrt(size)
    zeta = op.Mul(op.Mul(size, root), 2 / 3)
    scale = op.Div(1 / math.sqrt(math.pi), op.Sqrt(root))
    numbers = _expansion(10)  # an even count, so the last index is odd
    signs = [(-1) ** (k // 2) for k in range(10)]
    waved = [number * sign for number, sign in zip(numbers, signs, strict=True)]
    rows = (numbers[-2::-2], numbers[::-2], waved[-2::-2], waved[::-2])
    whole, less, cosine, sine = polynomials(op, op.Reciprocal(op.Mul(zeta, zeta)), rows)
    decaying = op.Mul(op.Sub(whole, op.Div(less, zeta)), op.Exp(op.Neg(zeta)))
    right = op.Mul(op.Mul(decaying, scale), 0.5)
    across = op.Mul(op.Sin(op.Sub(zeta, math.pi / 4)), op.Div(sine, zeta))
    along = op.Mul(op.Sin(op.Add(zeta, math.pi / 4)), cosine)  # the cosine of the same angle
    left = op.Mul(op.Add(along, across), scale)
    result = where_float64(op, op.Greater(x, _AIRY_FAR), right, middle)
    return where_float64(op, op.Less(x, -_AIRY_FAR), left, result)
