"""Elementwise functions of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import clamp, nonzero, scaled, select, truncated
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs
from onnxexp_aten.support.type_promotion import to_float

table = SymbolicTable("aten")

_FLOATING: Mapping[str, str] = MappingProxyType(
    {
        "acos": "Acos",
        "arccos": "Acos",
        "acosh": "Acosh",
        "arccosh": "Acosh",
        "asin": "Asin",
        "arcsin": "Asin",
        "asinh": "Asinh",
        "arcsinh": "Asinh",
        "atanh": "Atanh",
        "arctanh": "Atanh",
        "cos": "Cos",
        "erf": "Erf",
        "special_erf": "Erf",
        "exp": "Exp",
        "log": "Log",
        "reciprocal": "Reciprocal",
        "sigmoid": "Sigmoid",
        "special_expit": "Sigmoid",
        "sin": "Sin",
        "sqrt": "Sqrt",
        "tanh": "Tanh",
    }
)
"""Functions with one ONNX operator each; ints and bools become float32."""


def _floating(name: str, onnx_name: str) -> Callable[[Builder, Tensor], Tensor]:
    def symbolic(op: Builder, self: Tensor) -> Tensor:
        return compute(op, onnx_name, to_float(op, self))

    symbolic.__doc__ = f"{name}(Tensor self) -> Tensor; ONNX's {onnx_name}"
    return symbolic


for _name, _onnx_name in _FLOATING.items():
    table(_name)(_floating(_name, _onnx_name))


# Functions that ONNX Runtime lacks in float64


@table("tan")
def tan(op: Builder, self: Tensor) -> Tensor:
    """tan(Tensor self) -> Tensor"""
    x = to_float(op, self)
    return compute(op, "Tan", x) if runs(op, "Tan", x.dtype) else compute(op, "Div", compute(op, "Sin", x), compute(op, "Cos", x))


@table("sinh")
def sinh(op: Builder, self: Tensor) -> Tensor:
    """sinh(Tensor self) -> Tensor"""
    return _hyperbolic(op, "Sinh", "Sub", to_float(op, self))


@table("cosh")
def cosh(op: Builder, self: Tensor) -> Tensor:
    """cosh(Tensor self) -> Tensor"""
    return _hyperbolic(op, "Cosh", "Add", to_float(op, self))


def _hyperbolic(op: Builder, name: str, combine: str, x: Tensor) -> Tensor:
    if runs(op, name, x.dtype):
        return compute(op, name, x)
    rising, falling = compute(op, "Exp", x), compute(op, "Exp", compute(op, "Neg", x))
    return compute(op, "Mul", compute(op, combine, rising, falling), 0.5)


# Signs and rounding


@table("abs", "absolute")
def abs_(op: Builder, self: Tensor) -> Tensor:
    """abs(Tensor self) -> Tensor"""
    return self if self.dtype == torch.bool else compute(op, "Abs", self)


@table("neg", "negative")
def neg(op: Builder, self: Tensor) -> Tensor:
    """neg(Tensor self) -> Tensor"""
    return compute(op, "Neg", self)


@table("sign", "sgn")
def sign(op: Builder, self: Tensor) -> Tensor:
    """sign(Tensor self) -> Tensor; that of NaN is 0"""
    if self.dtype == torch.bool:
        return self
    found = compute(op, "Sign", self)
    return select(op, compare(op, "IsNaN", self), op.constant(0, self.dtype), found) if self.dtype.is_floating_point else found


@table("signbit")
def signbit(op: Builder, self: Tensor) -> Tensor:
    """signbit(Tensor self) -> Tensor"""
    if self.dtype == torch.bool:
        return op.Xor(self, self)
    negative = compare(op, "Less", self, 0)
    # 1 / -0.0 is -inf
    return op.Or(negative, compare(op, "Less", compute(op, "Reciprocal", self), 0)) if self.dtype.is_floating_point else negative


@table("atan", "arctan")
def atan(op: Builder, self: Tensor) -> Tensor:
    """atan(Tensor self) -> Tensor"""
    x = to_float(op, self)
    angle = compute(op, "Atan", x)
    if x.dtype != torch.float64 or runs(op, "Atan", x.dtype):
        return angle
    # a step of Newton's method: the kernel is of float32
    sine, cosine = op.Sin(angle), op.Sin(op.Add(angle, math.pi / 2))
    rest = op.Div(op.Sub(op.Mul(x, cosine), sine), op.Add(op.Mul(x, sine), cosine))
    far = op.Greater(op.Abs(x), 1e30)
    return op.Where(far, op.Mul(op.Sign(x), math.pi / 2), op.Add(angle, rest))


@table("ceil")
def ceil(op: Builder, self: Tensor) -> Tensor:
    """ceil(Tensor self) -> Tensor"""
    return compute(op, "Ceil", self) if self.dtype.is_floating_point else self


@table("floor")
def floor(op: Builder, self: Tensor) -> Tensor:
    """floor(Tensor self) -> Tensor"""
    return compute(op, "Floor", self) if self.dtype.is_floating_point else self


@table("trunc", "fix")
def trunc(op: Builder, self: Tensor) -> Tensor:
    """trunc(Tensor self) -> Tensor"""
    return truncated(op, self) if self.dtype.is_floating_point else self


@table("frac")
def frac(op: Builder, self: Tensor) -> Tensor:
    """frac(Tensor self) -> Tensor"""
    return compute(op, "Sub", self, truncated(op, self))


@table("round")
def round_(op: Builder, self: Tensor) -> Tensor:
    """round(Tensor self) -> Tensor"""
    return _rounded(op, self) if self.dtype.is_floating_point else self


@table("round.decimals")
def round_decimals(op: Builder, self: Tensor, decimals: int) -> Tensor:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if not self.dtype.is_floating_point or decimals == 0:
        return round_(op, self)
    scale = float(10 ** abs(decimals))
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return compute(op, back, _rounded(op, compute(op, there, self, scale)), scale)


def _rounded(op: Builder, x: Tensor) -> Tensor:
    """Round to the nearest integer, halves to even.

    A formula replaces ONNX's Round before opset 11.
    """
    if runs(op, "Round", torch.float32):
        return compute(op, "Round", x)
    down = compute(op, "Floor", x)
    rest = compute(op, "Sub", x, down)
    up = compute(op, "Add", down, 1)
    even = compute(op, "Mul", compute(op, "Floor", compute(op, "Mul", up, 0.5)), 2)
    nearest = select(op, compare(op, "Less", rest, 0.5), down, up)
    half = op.Not(op.Or(compare(op, "Less", rest, 0.5), compare(op, "Greater", rest, 0.5)))
    return select(op, half, even, nearest)


# Exponentials and logarithms


@table("rsqrt")
def rsqrt(op: Builder, self: Tensor) -> Tensor:
    """rsqrt(Tensor self) -> Tensor"""
    return compute(op, "Reciprocal", compute(op, "Sqrt", to_float(op, self)))


@table("square")
def square(op: Builder, self: Tensor) -> Tensor:
    """square(Tensor self) -> Tensor"""
    x = op.cast(self, torch.int64) if self.dtype == torch.bool else self
    return compute(op, "Mul", x, x)


@table("exp2", "special_exp2")
def exp2(op: Builder, self: Tensor) -> Tensor:
    """exp2(Tensor self) -> Tensor"""
    x = to_float(op, self)
    return compute(op, "Pow", op.constant(2.0, x.dtype), x)


@table("expm1", "special_expm1")
def expm1(op: Builder, self: Tensor) -> Tensor:
    """expm1(Tensor self) -> Tensor; tanh(x/2) * (exp(x) + 1) is exact near zero"""
    x = to_float(op, self)
    return compute(op, "Mul", compute(op, "Tanh", compute(op, "Mul", x, 0.5)), compute(op, "Add", compute(op, "Exp", x), 1))


@table("log2")
def log2(op: Builder, self: Tensor) -> Tensor:
    """log2(Tensor self) -> Tensor"""
    return compute(op, "Div", compute(op, "Log", to_float(op, self)), math.log(2.0))


@table("log10")
def log10(op: Builder, self: Tensor) -> Tensor:
    """log10(Tensor self) -> Tensor"""
    return compute(op, "Div", compute(op, "Log", to_float(op, self)), math.log(10.0))


@table("log1p", "special_log1p")
def log1p(op: Builder, self: Tensor) -> Tensor:
    """log1p(Tensor self) -> Tensor"""
    return compute(op, "Log", compute(op, "Add", to_float(op, self), 1))


@table("logit", "special_logit")
def logit(op: Builder, self: Tensor, eps: float | None) -> Tensor:
    """logit(Tensor self, float? eps=None) -> Tensor"""
    x = to_float(op, self)
    if eps is not None:
        x = clamp(op, x, eps, 1 - eps)
    return compute(op, "Log", compute(op, "Div", x, compute(op, "Sub", op.constant(1.0, x.dtype), x)))


@table("deg2rad")
def deg2rad(op: Builder, self: Tensor) -> Tensor:
    """deg2rad(Tensor self) -> Tensor"""
    return scaled(op, to_float(op, self), math.pi / 180)


@table("rad2deg")
def rad2deg(op: Builder, self: Tensor) -> Tensor:
    """rad2deg(Tensor self) -> Tensor"""
    return scaled(op, to_float(op, self), 180 / math.pi)


# NaN and infinity


@table("isnan")
def is_nan(op: Builder, self: Tensor) -> Tensor:
    """isnan(Tensor self) -> Tensor"""
    return compare(op, "IsNaN", self if self.dtype.is_floating_point else op.cast(self, torch.float32))


@table("isinf")
def is_inf(op: Builder, self: Tensor) -> Tensor:
    """isinf(Tensor self) -> Tensor"""
    x = to_float(op, self)
    if runs(op, "IsInf", torch.float32):
        return compare(op, "IsInf", x)
    return compare(op, "Greater", compute(op, "Abs", x), torch.finfo(x.dtype).max)


@table("isposinf")
def isposinf(op: Builder, self: Tensor) -> Tensor:
    """isposinf(Tensor self) -> Tensor"""
    x = to_float(op, self)
    return compare(op, "Greater", x, torch.finfo(x.dtype).max)


@table("isneginf")
def isneginf(op: Builder, self: Tensor) -> Tensor:
    """isneginf(Tensor self) -> Tensor"""
    x = to_float(op, self)
    return compare(op, "Less", x, torch.finfo(x.dtype).min)


@table("isfinite")
def isfinite(op: Builder, self: Tensor) -> Tensor:
    """isfinite(Tensor self) -> Tensor"""
    return compare(op, "Less", compute(op, "Abs", to_float(op, self)), math.inf)


@table("nan_to_num")
def nan_to_num(op: Builder, self: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not self.dtype.is_floating_point:
        return self
    limits = torch.finfo(self.dtype)
    x = self
    if posinf is None and neginf is None:
        x = clamp(op, x, limits.min, limits.max)
    else:
        high = op.constant(limits.max if posinf is None else posinf, self.dtype)
        low = op.constant(limits.min if neginf is None else neginf, self.dtype)
        x = select(op, compare(op, "Greater", self, limits.max), high, x)
        x = select(op, compare(op, "Less", self, limits.min), low, x)
    return select(op, compare(op, "IsNaN", self), op.constant(0.0 if nan is None else nan, self.dtype), x)


@table("angle")
def angle(op: Builder, self: Tensor) -> Tensor:
    """angle(Tensor self) -> Tensor; for real numbers"""
    x = to_float(op, self)
    turned = select(op, compare(op, "Less", x, 0), op.constant(math.pi, x.dtype), op.constant(0.0, x.dtype))
    return select(op, compare(op, "IsNaN", x), x, turned)


@table("sinc", "special_sinc")
def sinc(op: Builder, self: Tensor) -> Tensor:
    """sinc(Tensor self) -> Tensor"""
    x = scaled(op, to_float(op, self), math.pi)
    return select(op, nonzero(op, x), compute(op, "Div", compute(op, "Sin", x), x), op.constant(1.0, x.dtype))
