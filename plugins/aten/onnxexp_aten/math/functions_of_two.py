"""Functions of two variables: angles, lengths, signs, sums of exponentials."""

from __future__ import annotations

import math
from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import extreme, nonzero, select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.unary import atan, signbit
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.type_promotion import promote

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
