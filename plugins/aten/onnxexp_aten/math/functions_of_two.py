"""Functions of two variables: angles, lengths, signs, sums of exponentials.

The greatest common divisor is Euclid's algorithm, in a loop until every element is done. frexp and nextafter are arithmetic: ONNX
has no access to bits.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme, nonzero, select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.to_float64 import where_float64
from onnxexp_aten.math.unary import atan, signbit
from onnxexp_aten.support.kernel_dtypes import compare, compute, running_dtype
from onnxexp_aten.support.type_promotion import promote, to_float

table = SymbolicTable("aten")


@table("atan2", "arctan2")
def atan2(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """atan2(Tensor self, Tensor other) -> Tensor"""
    y, x = promote(op, self, other, floating=True)
    infinite = op.And(*(equal(op, compute(op, "Abs", each), op.constant(math.inf, each.dtype)) for each in (y, x)))
    signs = compute(op, "Mul", compute(op, "Sign", y), compute(op, "Sign", x))
    slope = select(op, infinite, signs, compute(op, "Div", y, x))
    angle = select(op, op.Or(nonzero(op, y), nonzero(op, x)), atan(op, slope), y)
    half_turn = select(op, signbit(op, y), op.constant(-math.pi, y.dtype), op.constant(math.pi, y.dtype))
    return select(op, signbit(op, x), compute(op, "Add", angle, half_turn), angle)


@table("hypot")
def hypot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """hypot(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other)
    return compute(op, "Sqrt", compute(op, "Add", compute(op, "Mul", x, x), compute(op, "Mul", y, y)))


@table("copysign.Tensor", "copysign.Scalar")
def copysign(op: Builder, self: Tensor, other: Any) -> Tensor:
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, sign = promote(op, self, other, floating=True)
    # ONNX Runtime's Where loses the sign of zeros in the second input, so that it cannot choose between the results
    factor = select(op, signbit(op, sign), op.constant(-1.0, x.dtype), op.constant(1.0, x.dtype))
    return compute(op, "Mul", compute(op, "Abs", x), factor)


@table("heaviside")
def heaviside(op: Builder, self: Tensor, values: Tensor) -> Tensor:
    """heaviside(Tensor self, Tensor values) -> Tensor"""
    step = op.cast(compare(op, "Greater", self, 0), self.dtype)
    return select(op, nonzero(op, self), step, values)


@table("logaddexp")
def logaddexp(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """logaddexp(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other)
    distance = compute(op, "Abs", compute(op, "Sub", x, y))
    smaller = compute(op, "Exp", compute(op, "Neg", distance))
    result = compute(op, "Add", extreme(op, "Max", x, y), compute(op, "Log", compute(op, "Add", smaller, 1)))
    # equal infinities: their difference is NaN, the result is the infinity
    return select(op, compare(op, "IsNaN", distance), compute(op, "Add", x, y), result)


@table("logaddexp2")
def logaddexp2(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """logaddexp2(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other)
    scale = math.log(2.0)
    return compute(op, "Div", logaddexp(op, compute(op, "Mul", x, scale), compute(op, "Mul", y, scale)), scale)


_ROUNDS = 100
"""Most rounds; two 64-bit integers need fewer (Lamé's theorem)."""


def _divisor(op: Builder, one: Tensor, other: Tensor) -> Tensor:
    """Compute the greatest common divisor of integers that are broadcast together."""
    zero = op.constant(0, one.dtype)
    same_sizes = op.Mul(op.Add(one, other), zero)

    def body(number: Tensor, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        is_open = op.cast(b, torch.bool)
        quotient = op.Div(a, op.Where(is_open, b, op.constant(1, one.dtype)))
        remainder = op.Where(is_open, op.Sub(a, op.Mul(quotient, b)), zero)
        any_open = op.ReduceMax(op.cast(op.cast(remainder, torch.bool), torch.int32), keepdims=0)
        return any_open, [op.Where(is_open, b, a), remainder], []

    start = op.Abs(op.Add(one, same_sizes)), op.Abs(op.Add(other, same_sizes))
    return op.loop(_ROUNDS, op.constant(True), body, start)[0]


@table("gcd")
def gcd(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """gcd(Tensor self, Tensor other) -> Tensor"""
    left, right = promote(op, self, other)
    dtype = running_dtype(op, "Mul", left.dtype)
    dtype = dtype if dtype in (torch.int32, torch.int64) else torch.int32
    return op.cast(_divisor(op, op.cast(left, dtype), op.cast(right, dtype)), left.dtype)


@table("lcm")
def lcm(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """lcm(Tensor self, Tensor other) -> Tensor"""
    left, right = promote(op, self, other)
    divisor = gcd(op, left, right)
    divisor = select(op, op.cast(divisor, torch.bool), divisor, op.constant(1, left.dtype))
    product = compute(op, "Mul", compute(op, "Div", left, divisor), right)
    return compute(op, "Abs", product)


def _exponent(op: Builder, size: Tensor) -> Tensor:
    """Return the exponent e of ``size = m * 2**e``, 1 <= m < 2, of positive float64.

    The estimate by logarithm may be off by one and is corrected.
    """
    guess = op.Floor(op.Div(op.Log(size), math.log(2)))
    mantissa = op.Div(size, op.Pow(op.constant(2.0, torch.float64), guess))
    too_low = op.cast(op.Not(op.Less(mantissa, 2.0)), torch.float64)
    return op.Sub(op.Add(guess, too_low), op.cast(op.Less(mantissa, 1.0), torch.float64))


def _positive(op: Builder, size: Tensor) -> Tensor:
    """Return where a float64 tensor is positive and finite."""
    return op.And(op.Greater(size, 0.0), op.Less(size, math.inf))


@table("frexp.Tensor")
def frexp(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    x = op.cast(self, torch.float64)
    size = op.Abs(x)
    plain = _positive(op, size)
    exponent = op.Add(_exponent(op, where_float64(op, plain, size, 1.0)), 1.0)
    mantissa = op.Div(x, op.Pow(op.constant(2.0, torch.float64), exponent))
    return op.cast(where_float64(op, plain, mantissa, x), self.dtype), op.cast(
        where_float64(op, plain, exponent, 0.0), torch.int32
    )


@table("nextafter")
def nextafter(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """nextafter(Tensor self, Tensor other) -> Tensor"""
    one, two = promote(op, self, other)
    if one.dtype == torch.float64:
        op.decline("float64 has no wider dtype to compute the step in")
    x, goal = op.cast(one, torch.float64), op.cast(two, torch.float64)
    info = torch.finfo(one.dtype)
    highest = info.max / (1 - info.eps / 2)  # the number that would follow the largest one, and stands for infinity
    x = op.Max(op.Min(x, highest), -highest)
    # adding 0.5 to 1.5 of the spacing rounds to the next number; this adds 0.56 to 1.13 of it
    step = op.Max(op.Mul(op.Abs(x), 0.5625 * info.eps), op.constant(0.75 * info.tiny * info.eps, torch.float64))
    moved = op.cast(op.Add(x, op.Mul(op.Sign(op.Sub(goal, x)), step)), one.dtype)
    return select(op, equal(op, one, two), two, moved)


@table(
    *("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"),
    *("special_xlogy", "special_xlogy.self_scalar", "special_xlogy.other_scalar"),
)
def xlogy(op: Builder, self: Any, other: Any) -> Tensor:
    """xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other, floating=True)
    return _product(op, x, y, compute(op, "Log", y))


@table("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def xlog1py(op: Builder, self: Any, other: Any) -> Tensor:
    """special_xlog1py(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(op, self, other, floating=True)
    return _product(op, x, y, compute(op, "Log", compute(op, "Add", y, 1)))


def _product(op: Builder, x: Tensor, y: Tensor, logarithm: Tensor) -> Tensor:
    product = compute(op, "Mul", x, logarithm)
    defined = select(op, equal(op, x, op.constant(0.0, x.dtype)), op.constant(0.0, x.dtype), product)
    return select(op, compare(op, "IsNaN", y), y, defined)


@table("special_entr")
def entr(op: Builder, self: Tensor) -> Tensor:
    """special_entr(Tensor self) -> Tensor"""
    x = to_float(op, self)
    zero = op.constant(0.0, x.dtype)
    curve = compute(op, "Neg", compute(op, "Mul", x, compute(op, "Log", x)))
    at_zero = select(op, equal(op, x, zero), zero, curve)
    return select(op, compare(op, "Less", x, zero), op.constant(float("-inf"), x.dtype), at_zero)
