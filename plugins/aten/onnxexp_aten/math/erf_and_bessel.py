"""Error functions, their inverses, and Bessel functions.

Sources: M. Giles, "Approximating the erfinv function" (2010); the Chebyshev fit to erfc in Numerical Recipes 6.2; Abramowitz
and Stegun 9.4 and 9.8 (Bessel functions; relative errors of about 1e-7, the accuracy of float32).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.to_float64 import equal_float64, in_float64, polynomial, polynomials, where_float64

table = SymbolicTable("aten")

# Error functions

_ERFINV_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
_ERFC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)

_TAILS = (
    (
        *(4.05544892305962419923, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1),
        *(1.46849561928858024014e1, 2.18663306850790267539, -1.40256079171354495875e-1, -3.50424626827848203418e-2),
        -8.57456785154685413611e-4,
    ),
    (
        *(1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1),
        *(2.50464946208309415979, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4),
    ),
    (
        *(3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389),
        *(2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6),
        6.23974539184983293730e-9,
    ),
    (
        *(1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 2.16236993594496635890e-1),
        *(1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
    ),
)
"""Cephes' rational functions of the normal distribution's tail: numerator and denominator, nearer and farther out."""


def _erfinv(op: Builder, x: Tensor, product: Tensor) -> Tensor:
    """Compute the inverse of erf; `product` is (1 - x) * (1 + x), at most 1."""
    w = op.Abs(op.Log(product))
    arguments = op.Sub(w, 2.5), op.Sub(op.Sqrt(w), 3.0)
    middle, tail = polynomials(op, arguments, (_ERFINV_MIDDLE, _ERFINV_TAIL))
    return op.Mul(where_float64(op, op.Less(w, 5.0), middle, tail), x)


@in_float64(table, "erfinv", "special_erfinv", schema="erfinv(Tensor self) -> Tensor")
def erfinv(op: Builder, x: Tensor) -> Tensor:
    """Compute the inverse of erf: infinite at -1 and 1, NaN beyond."""
    result = _erfinv(op, x, op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))
    return where_float64(op, equal_float64(op, op.Abs(x), 1.0), op.Mul(x, math.inf), result)


@in_float64(table, "special_ndtri", schema="special_ndtri(Tensor self) -> Tensor")
def ndtri(op: Builder, p: Tensor) -> Tensor:
    """Compute the quantile of the standard normal distribution."""
    other = op.Sub(1.0, p)
    middle = op.Mul(_erfinv(op, op.Sub(p, other), op.Mul(op.Mul(p, 4.0), other)), math.sqrt(2))
    near = op.Less(p, 0.5)
    least = where_float64(op, near, p, other)
    tail = _normal_tail(op, least)
    tail = where_float64(op, near, op.Neg(tail), tail)
    result = where_float64(op, op.Less(least, math.exp(-2)), tail, middle)
    result = where_float64(op, equal_float64(op, p, 1.0), math.inf, result)
    return where_float64(op, equal_float64(op, p, 0.0), -math.inf, result)


def _normal_tail(op: Builder, p: Tensor) -> Tensor:
    """Compute the number that a normal variable exceeds with a small probability p."""
    t = op.Sqrt(op.Mul(op.Log(p), -2.0))
    z = op.Reciprocal(t)
    above, below, far_above, far_below = polynomials(op, z, _TAILS)
    ratio = where_float64(op, op.Less(t, 8.0), op.Div(above, below), op.Div(far_above, far_below))
    return op.Sub(op.Sub(t, op.Mul(op.Log(t), z)), op.Mul(ratio, z))


def scaled_erfc(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(x²) * erfc(x) for x >= 0, in float64."""
    t = op.Div(1.0, op.Add(op.Mul(x, 0.5), 1.0))
    return op.Mul(t, op.Exp(polynomial(op, t, _ERFC)))


@in_float64(table, "special_erfcx", schema="special_erfcx(Tensor self) -> Tensor")
def erfcx(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(x²) * erfc(x)."""
    right = scaled_erfc(op, op.Abs(x))
    left = op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2.0), right)
    return where_float64(op, op.Less(x, 0.0), left, right)


@in_float64(table, "erfc", "special_erfc", schema="erfc(Tensor self) -> Tensor")
def erfc(op: Builder, x: Tensor) -> Tensor:
    """Compute 1 - erf(x), whose tail keeps its digits."""
    return _erfc(op, x, scaled_erfc(op, op.Abs(x)))


def _erfc(op: Builder, x: Tensor, scaled: Tensor) -> Tensor:
    """Compute erfc(x), where exp(x²) * erfc(|x|) is given."""
    right = op.Mul(scaled, op.Exp(op.Neg(op.Mul(x, x))))
    return where_float64(op, op.Less(x, 0.0), op.Sub(2.0, right), right)


@in_float64(table, "special_ndtr", schema="special_ndtr(Tensor self) -> Tensor")
def ndtr(op: Builder, x: Tensor) -> Tensor:
    """Compute the standard normal distribution function."""
    return op.Mul(erfc(op, op.Mul(x, -math.sqrt(0.5))), 0.5)


@in_float64(table, "special_log_ndtr", schema="special_log_ndtr(Tensor self) -> Tensor")
def log_ndtr(op: Builder, x: Tensor) -> Tensor:
    """Compute log(ndtr(x)), whose lower tail keeps its digits."""
    z = op.Mul(x, -math.sqrt(0.5))
    scaled = scaled_erfc(op, op.Abs(z))
    below = op.Less(x, -1.0)
    logarithm = op.Log(op.Mul(where_float64(op, below, scaled, _erfc(op, z, scaled)), 0.5))
    return where_float64(op, below, op.Sub(logarithm, op.Mul(op.Mul(x, x), 0.5)), logarithm)


# Modified Bessel functions

_I0_NEAR = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_FAR = (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228)
_I1_NEAR = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
_I1_FAR = (-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024, 0.39894228)
_K0_NEAR = (0.0000074, 0.0001075, 0.00262698, 0.0348859, 0.23069756, 0.4227842, -0.57721566)
_K0_FAR = (0.00053208, -0.0025154, 0.00587872, -0.01062446, 0.02189568, -0.07832358, 1.25331414)
_K1_NEAR = (-0.00004686, -0.00110404, -0.01919402, -0.18156897, -0.67278579, 0.15443144, 1.0)
_K1_FAR = (-0.00068245, 0.00325614, -0.00780353, 0.01504268, -0.0365562, 0.23498619, 1.25331414)


_I_NEAR = 3.75
"""Bound below which I0 and I1(x) / x are polynomials in (x / 3.75)²."""


def _stretched(coefficients: Sequence[float], factor: float) -> list[float]:
    """Return a polynomial's coefficients for an argument scaled by the factor."""
    highest = len(coefficients) - 1
    return [coefficient * factor ** (highest - index) for index, coefficient in enumerate(coefficients)]


def _parts_of_i(op: Builder, size: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Compute I0 or I1 of `size` up to 3.75, and exp(-size) times it beyond."""
    low, beyond = op.Min(size, _I_NEAR), op.Max(size, _I_NEAR)
    of_near, of_far = (_I1_NEAR, _I1_FAR) if order else (_I0_NEAR, _I0_FAR)
    rows = _stretched(of_near, _I_NEAR**-2), of_far
    near, far = polynomials(op, (op.Mul(low, low), op.Div(_I_NEAR, beyond)), rows)
    return op.Mul(near, size) if order else near, op.Div(far, op.Sqrt(beyond))


def _scaled_i(op: Builder, x: Tensor, order: int) -> Tensor:
    """Compute exp(-|x|) * I0(x), or exp(-|x|) * I1(|x|)."""
    size = op.Abs(x)
    near, far = _parts_of_i(op, size, order)
    return where_float64(op, op.Less(size, _I_NEAR), op.Mul(near, op.Exp(op.Neg(size))), far)


def _i(op: Builder, x: Tensor, order: int) -> Tensor:
    """Compute I0(x), or I1(|x|)."""
    size = op.Abs(x)
    near, far = _parts_of_i(op, size, order)
    return where_float64(op, op.Less(size, _I_NEAR), near, op.Mul(far, op.Exp(size)))


@in_float64(table, "special_i0e", schema="special_i0e(Tensor self) -> Tensor")
def i0e(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(-|x|) * I0(x)."""
    return _scaled_i(op, x, 0)


@in_float64(table, "i0", "special_i0", "special_modified_bessel_i0", schema="i0(Tensor self) -> Tensor")
def i0(op: Builder, x: Tensor) -> Tensor:
    """Compute the modified Bessel function of the first kind of order 0."""
    return _i(op, x, 0)


@in_float64(table, "special_i1e", schema="special_i1e(Tensor self) -> Tensor")
def i1e(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(-|x|) * I1(x)."""
    return op.Mul(_scaled_i(op, x, 1), op.Sign(x))


@in_float64(table, "special_i1", "special_modified_bessel_i1", schema="special_i1(Tensor self) -> Tensor")
def i1(op: Builder, x: Tensor) -> Tensor:
    """Compute the modified Bessel function of the first kind of order 1."""
    return op.Mul(_i(op, x, 1), op.Sign(x))


def _k(op: Builder, x: Tensor, order: int, *, scaled: bool) -> Tensor:
    """Compute K0(x) or K1(x), or exp(x) times it: infinite at 0, NaN below 0."""
    low, beyond = op.Min(x, 2.0), op.Max(x, 2.0)
    half = op.Mul(low, 0.5)
    of_k, of_i, of_far = ((_K0_NEAR, _I0_NEAR, _K0_FAR), (_K1_NEAR, _I1_NEAR, _K1_FAR))[order]
    square = op.Mul(half, half)
    rows = of_k, _stretched(of_i, (2 / _I_NEAR) ** 2), of_far
    near, i, far = polynomials(op, (square, square, op.Div(2.0, beyond)), rows)
    along = op.Mul(op.Log(half), i)
    if order:
        near = _from(op, x, math.inf, op.Add(op.Div(near, low), op.Mul(along, low)))
    else:
        near = op.Sub(near, along)
    far = op.Div(far, op.Sqrt(beyond))
    if scaled:
        near = op.Mul(near, op.Exp(x))
    else:
        far = op.Mul(far, op.Exp(op.Neg(x)))
    return where_float64(op, op.Greater(x, 2.0), far, near)


def _from(op: Builder, x: Tensor, at_0: float, result: Tensor) -> Tensor:
    """Replace the result at x = 0."""
    return where_float64(op, equal_float64(op, x, 0.0), at_0, result)


@in_float64(table, "special_scaled_modified_bessel_k0", schema="special_scaled_modified_bessel_k0(Tensor x) -> Tensor")
def scaled_k0(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(x) * K0(x)."""
    return _k(op, x, 0, scaled=True)


@in_float64(table, "special_scaled_modified_bessel_k1", schema="special_scaled_modified_bessel_k1(Tensor x) -> Tensor")
def scaled_k1(op: Builder, x: Tensor) -> Tensor:
    """Compute exp(x) * K1(x)."""
    return _k(op, x, 1, scaled=True)


@in_float64(table, "special_modified_bessel_k0", schema="special_modified_bessel_k0(Tensor self) -> Tensor")
def k0(op: Builder, x: Tensor) -> Tensor:
    """Compute the modified Bessel function of the second kind of order 0."""
    return _k(op, x, 0, scaled=False)


@in_float64(table, "special_modified_bessel_k1", schema="special_modified_bessel_k1(Tensor self) -> Tensor")
def k1(op: Builder, x: Tensor) -> Tensor:
    """Compute the modified Bessel function of the second kind of order 1."""
    return _k(op, x, 1, scaled=False)


# Bessel functions

_J0_NEAR = (0.00021, -0.0039444, 0.0444479, -0.3163866, 1.2656208, -2.2499997, 1.0)
_J1_NEAR = (0.00001109, -0.00031761, 0.00443319, -0.03954289, 0.21093573, -0.56249985, 0.5)
_Y0_NEAR = (-0.00024846, 0.00427916, -0.04261214, 0.25300117, -0.74350384, 0.60559366, 0.36746691)
_Y1_NEAR = (0.0027873, -0.0400976, 0.3123951, -1.3164827, 2.1682709, 0.2212091, -0.6366198)
_SIZE_0 = (0.00014476, -0.00072805, 0.00137237, -0.00009512, -0.0055274, -0.00000077, 0.79788456)
_ANGLE_0 = (0.00013558, -0.00029333, -0.00054125, 0.00262573, -0.00003954, -0.04166397, -0.78539816)
_SIZE_1 = (-0.00020033, 0.00113653, -0.00249511, 0.00017105, 0.01659667, 0.00000156, 0.79788456)
_ANGLE_1 = (-0.00029166, 0.00079824, 0.00074348, -0.00637879, 0.0000565, 0.12499612, -2.35619449)


def _parts(op: Builder, x: Tensor, turn: float, near: Sequence[Sequence[float]], far: Sequence[Sequence[float]]) -> list[Tensor]:
    """Compute polynomials in (x / 3)² for x up to 3, and last the wave beyond.

    The size and phase of the wave, a sine turned by an angle in radians, are polynomials in 3 / x.
    """
    beyond, low = op.Max(x, 3.0), op.Min(x, 3.0)
    t, square = op.Div(3.0, beyond), op.Mul(low, low)
    sizes, (*angles, phase) = far
    rows = [*(_stretched(row, 1 / 9) for row in near), sizes, [*angles, phase + turn]]
    *within, size, angle = polynomials(op, [*[square] * len(near), t, t], rows)
    return [*within, op.Div(op.Mul(size, op.Sin(op.Add(angle, beyond))), op.Sqrt(beyond))]


@in_float64(table, "special_bessel_j0", schema="special_bessel_j0(Tensor self) -> Tensor")
def j0(op: Builder, x: Tensor) -> Tensor:
    """Compute the Bessel function of the first kind of order 0."""
    size = op.Abs(x)
    near, far = _parts(op, size, math.pi / 2, [_J0_NEAR], [_SIZE_0, _ANGLE_0])
    return where_float64(op, op.Less(size, 3.0), near, far)


@in_float64(table, "special_bessel_j1", schema="special_bessel_j1(Tensor self) -> Tensor")
def j1(op: Builder, x: Tensor) -> Tensor:
    """Compute the Bessel function of the first kind of order 1."""
    size = op.Abs(x)
    near, far = _parts(op, size, math.pi / 2, [_J1_NEAR], [_SIZE_1, _ANGLE_1])
    return where_float64(op, op.Less(size, 3.0), op.Mul(near, x), op.Mul(far, op.Sign(x)))


@in_float64(table, "special_bessel_y0", schema="special_bessel_y0(Tensor self) -> Tensor")
def y0(op: Builder, x: Tensor) -> Tensor:
    """Compute the Bessel function Y0 of the second kind: infinite at 0, NaN below."""
    j, near, far = _parts(op, x, 0.0, [_J0_NEAR, _Y0_NEAR], [_SIZE_0, _ANGLE_0])
    near = op.Add(near, op.Mul(op.Mul(op.Log(op.Mul(x, 0.5)), j), 2 / math.pi))
    return where_float64(op, op.Less(x, 3.0), near, far)


@in_float64(table, "special_bessel_y1", schema="special_bessel_y1(Tensor self) -> Tensor")
def y1(op: Builder, x: Tensor) -> Tensor:
    """Compute the Bessel function Y1 of the second kind: infinite at 0, NaN below."""
    j, near, far = _parts(op, x, 0.0, [_J1_NEAR, _Y1_NEAR], [_SIZE_1, _ANGLE_1])
    near = op.Add(op.Div(near, x), op.Mul(op.Mul(op.Log(op.Mul(x, 0.5)), op.Mul(j, x)), 2 / math.pi))
    return where_float64(op, op.Less(x, 3.0), _from(op, x, -math.inf, near), far)


@in_float64(table, "special_spherical_bessel_j0", schema="special_spherical_bessel_j0(Tensor x) -> Tensor")
def spherical_j0(op: Builder, x: Tensor) -> Tensor:
    """Compute sin(x) / x."""
    result = where_float64(op, equal_float64(op, x, 0.0), 1.0, op.Div(op.Sin(x), x))
    return where_float64(op, op.Greater(op.Abs(x), 1e300), 0.0, result)
