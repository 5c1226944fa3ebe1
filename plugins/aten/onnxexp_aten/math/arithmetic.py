"""Arithmetic on two or more tensors, with torch's type promotion and broadcasting."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs
from onnxexp_aten.support.read_arguments import truncate_like_torch
from onnxexp_aten.support.type_promotion import promote, promoted_dtype

table = SymbolicTable("aten")


def is_number(x: Any, value: float) -> bool:
    """Return whether `x` is this number, as a Python number or a constant 0-d tensor."""
    if isinstance(x, Tensor):
        return x.const is not None and x.const.dim() == 0 and x.const.item() == value
    return isinstance(x, (bool, int, float)) and x == value


def scaled(op: Builder, x: Tensor, factor: Any) -> Tensor:
    """Multiply by a factor in x's dtype; a factor of 1 returns `x`."""
    return x if is_number(factor, 1) else compute(op, "Mul", x, factor)


def nonzero(op: Builder, x: Tensor) -> Tensor:
    """Return where `x` is not zero, by a cast to bool."""
    return op.cast(x, torch.bool)


def both(op: Builder, one: Tensor, other: Tensor) -> Tensor:
    """Emit ``And`` of two bools; a constant True adds no node."""
    for left, right in ((one, other), (other, one)):
        known = left.const
        if known is not None and known.numel() == 1 and bool(known) and right.rank is not None and known.dim() <= right.rank:
            return right
    return op.And(one, other)


def select(op: Builder, condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Choose by a condition from two tensors of one dtype, which may be bool."""
    condition = op.cast(condition, torch.bool)
    if one.dtype != torch.bool or runs(op, "Where", torch.bool):
        inner = next((d for d in (one.dtype, torch.int32, torch.int64, torch.float32) if runs(op, "Where", d)), one.dtype)
        inner = torch.float32 if one.dtype.is_floating_point and inner != one.dtype else inner
        return op.cast(op.Where(condition, op.cast(one, inner), op.cast(other, inner)), one.dtype)
    if is_number(one, True):
        return op.Or(condition, other)
    if is_number(other, False):
        return op.And(condition, one)
    if is_number(one, False):
        return op.And(op.Not(condition), other)
    if is_number(other, True):
        return op.Or(op.Not(condition), one)
    return op.Or(op.And(condition, one), op.And(op.Not(condition), other))


# Sums and products


@table("add.Tensor", "add.Scalar")
def add(op: Builder, self: Tensor, other: Any, alpha: Any) -> Tensor:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    dtype = promoted_dtype(self, other)
    if is_number(other, 0) and self.dtype == dtype and not dtype.is_floating_point:
        return self
    left, right = promote(op, self, other, dtype=dtype)
    if dtype == torch.bool:
        return op.Or(left, both(op, right, op.constant(bool(op.static(alpha, "alpha")))))
    if is_number(alpha, -1):
        return compute(op, "Sub", left, right)
    return compute(op, "Add", left, scaled(op, right, alpha))


@table("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(op: Builder, self: Any, other: Any, alpha: Any) -> Tensor:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    dtype = promoted_dtype(self, other)
    if is_number(other, 0) and self.dtype == dtype:
        return self
    left, right = promote(op, self, other, dtype=dtype)
    if is_number(alpha, -1):
        return compute(op, "Add", left, right)
    return compute(op, "Sub", left, scaled(op, right, alpha))


@table("rsub.Tensor", "rsub.Scalar")
def rsub(op: Builder, self: Tensor, other: Any, alpha: Any) -> Tensor:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    left, right = promote(op, self, other)
    return compute(op, "Sub", right, scaled(op, left, alpha))


def _is_0d(x: Any) -> bool:
    """Return whether an operand is a 0-d tensor or a number, such as a traced size."""
    return not isinstance(x, Tensor) or x.rank == 0


@table("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def mul(op: Builder, self: Tensor, other: Any) -> Tensor:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = promoted_dtype(self, other)
    if is_number(other, 1) and self.dtype == dtype:
        return self
    left, right = promote(op, self, other, dtype=dtype, rounded=_is_0d(self))
    if dtype == torch.bool:
        return both(op, left, right)
    return compute(op, "Mul", left, right)


@table("addcmul")
def addcmul(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, one, two = promote(op, self, tensor1, tensor2)
    if isinstance(value, float) and not (base.dtype.is_floating_point or base.dtype.is_complex):
        value = int(value)  # as torch's kernel
    return compute(op, "Add", base, scaled(op, compute(op, "Mul", one, two), value))


@table("addcdiv")
def addcdiv(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, one, two = promote(op, self, tensor1, tensor2)
    return compute(op, "Add", base, scaled(op, compute(op, "Div", one, two), value))


@table("lerp.Scalar", "lerp.Tensor")
def lerp(op: Builder, self: Tensor, end: Tensor, weight: Any) -> Tensor:
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor

    As in torch, a static weight starts at the nearer end, so that a weight of 1 returns exactly `end`.
    """
    if isinstance(weight, Tensor):
        self, end, weight = promote(op, self, end, weight)
    else:
        self, end = promote(op, self, end)
    way = compute(op, "Sub", end, self)
    known = op.static(weight) if op.is_static(weight) else None
    if isinstance(known, (int, float)) and abs(known) >= 0.5:
        return compute(op, "Sub", end, scaled(op, way, 1 - known))
    return compute(op, "Add", self, scaled(op, way, weight))


# Division


@table("div.Tensor", "div.Scalar", "divide.Tensor", "divide.Scalar", "true_divide.Tensor", "true_divide.Scalar")
def div(op: Builder, self: Tensor, other: Any) -> Tensor:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = promoted_dtype(self, other, floating=True)
    if is_number(other, 1) and self.dtype == dtype:
        return self
    return compute(op, "Div", *promote(op, self, other, dtype=dtype, rounded=_is_0d(self)))


@table("div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode")
def div_mode(op: Builder, self: Tensor, other: Any, rounding_mode: str | None) -> Tensor:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    if rounding_mode is None:
        return div(op, self, other)
    left, right = _divided(op, self, other)
    if rounding_mode == "floor":
        return floor_divide(op, left, right)
    quotient = compute(op, "Div", left, right)
    return truncated(op, quotient) if quotient.dtype.is_floating_point else quotient


@table("floor_divide", "floor_divide.Scalar")
def aten_floor_divide(op: Builder, self: Tensor, other: Any) -> Tensor:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    return floor_divide(op, *_divided(op, self, other))


@table("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(op: Builder, self: Any, other: Any) -> Tensor:
    """remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    return floor_remainder(op, *_divided(op, self, other))


@table("fmod.Tensor", "fmod.Scalar")
def fmod(op: Builder, self: Tensor, other: Any) -> Tensor:
    """fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _remainder_of_truncation(op, *_divided(op, self, other))


def _divided(op: Builder, self: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Promote a dividend and a divisor; a run-time integer divisor of 0 becomes 1.

    ONNX Runtime refuses an integer 0 as divisor even of an empty tensor, as in ``x % x.shape[0]``.
    """
    left, right = promote(op, self, other)
    if right.dtype.is_floating_point or right.rank != 0 or right.const is not None:
        return left, right
    return left, select(op, compare(op, "Equal", right, 0), op.constant(1, right.dtype), right)


def floor_divide(op: Builder, left: Tensor, right: Tensor) -> Tensor:
    """Divide two tensors of one dtype, and round the quotient down.

    Floats are computed from the remainder, as torch and Python do.
    """
    if not left.dtype.is_signed:
        return compute(op, "Div", left, right)
    if left.dtype.is_floating_point and _is_power_of_two(right):
        return compute(op, "Floor", compute(op, "Div", left, right))
    if not left.dtype.is_floating_point:
        return compute(op, "Div", compute(op, "Sub", left, floor_remainder(op, left, right)), right)
    rest = _remainder_of_truncation(op, left, right)
    quotient = compute(op, "Div", compute(op, "Sub", left, rest), right)
    quotient = select(op, _is_of_other_sign(op, rest, right), compute(op, "Sub", quotient, 1), quotient)
    down = compute(op, "Floor", quotient)
    above = compare(op, "Greater", compute(op, "Sub", quotient, down), 0.5)  # adding 0.5 before Floor would round up far from 0
    finite = select(op, above, compute(op, "Add", down, 1), down)
    return select(op, nonzero(op, right), finite, compute(op, "Div", left, right))


def floor_remainder(op: Builder, left: Tensor, right: Tensor) -> Tensor:
    """Compute the remainder with the divisor's sign, of two tensors of one dtype."""
    if not left.dtype.is_floating_point and runs(op, "Mod", torch.int64):
        return compute(op, "Mod", left, right)
    rest = _remainder_of_truncation(op, left, right)
    if not left.dtype.is_signed:
        return rest
    return select(op, _is_of_other_sign(op, rest, right), compute(op, "Add", rest, right), rest)


def _is_of_other_sign(op: Builder, rest: Tensor, right: Tensor) -> Tensor:
    """Return where a nonzero remainder and the divisor differ in sign."""
    if right.const is not None and right.const.numel() == 1:
        return compare(op, "Less" if right.const.item() > 0 else "Greater", rest, 0)
    return op.And(nonzero(op, rest), op.Xor(compare(op, "Less", rest, 0), compare(op, "Less", right, 0)))


def _remainder_of_truncation(op: Builder, left: Tensor, right: Tensor) -> Tensor:
    if runs(op, "Mod", torch.int64):
        return compute(op, "Mod", left, right, fmod=1)
    quotient = compute(op, "Div", left, right)
    whole = truncated(op, quotient) if left.dtype.is_floating_point else quotient
    return compute(op, "Sub", left, compute(op, "Mul", whole, right))


def _is_power_of_two(x: Tensor) -> bool:
    return x.const is not None and x.const.numel() == 1 and abs(math.frexp(x.const.item())[0]) == 0.5


def truncated(op: Builder, x: Tensor) -> Tensor:
    """Round a float tensor towards zero."""
    return compute(op, "Mul", compute(op, "Sign", x), compute(op, "Floor", compute(op, "Abs", x)))


# Bounds


@table("maximum", "max.other")
def maximum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """maximum(Tensor self, Tensor other) -> Tensor"""
    return extreme(op, "Max", *promote(op, self, other))


@table("minimum", "min.other")
def minimum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """minimum(Tensor self, Tensor other) -> Tensor"""
    return extreme(op, "Min", *promote(op, self, other))


def extreme(op: Builder, name: str, one: Tensor, other: Tensor) -> Tensor:
    """Emit ``Max`` or ``Min`` of two tensors of one dtype, integers included."""
    if one.dtype == torch.bool:
        return op.call("", "Or" if name == "Max" else "And", one, other)
    if one.dtype.is_floating_point or runs(op, name, torch.int64):
        return compute(op, name, one, other)
    return select(op, compare(op, "Greater" if name == "Max" else "Less", one, other), one, other)


@table("fmax")
def fmax(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """fmax(Tensor self, Tensor other) -> Tensor"""
    return _without_nan(op, "Max", *promote(op, self, other))


@table("fmin")
def fmin(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """fmin(Tensor self, Tensor other) -> Tensor"""
    return _without_nan(op, "Min", *promote(op, self, other))


def _without_nan(op: Builder, name: str, one: Tensor, other: Tensor) -> Tensor:
    result = extreme(op, name, one, other)
    if not result.dtype.is_floating_point:
        return result
    result = select(op, compare(op, "IsNaN", other), one, result)
    return select(op, compare(op, "IsNaN", one), other, result)


@table("clamp", "clamp.Tensor", "clip", "clip.Tensor")
def clamp(op: Builder, self: Tensor, min: Any, max: Any) -> Tensor:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    dtype = promoted_dtype(self, min, max)
    x = op.cast(self, dtype)
    bounds = [bound for bound in (min, max) if bound is not None]
    if all(_is_scalar(bound) for bound in bounds) and runs(op, "Clip", dtype):
        # without a bound, Clip uses the largest finite number and would clip infinity
        ends = (-math.inf, math.inf) if dtype.is_floating_point else (None, None)
        low, high = (end if bound is None else op.cast(bound, dtype) for bound, end in zip((min, max), ends, strict=True))
        if low is not None and high is not None and op.static(low) > op.static(high):
            low = high  # the maximum wins
        return op.Clip(x, low, high)
    if min is not None:
        x = extreme(op, "Max", x, op.cast(min, dtype))
    return x if max is None else extreme(op, "Min", x, op.cast(max, dtype))


def _is_scalar(bound: Any) -> bool:
    return not isinstance(bound, Tensor) or (bound.const is not None and bound.const.dim() == 0)


@table("clamp_min", "clamp_min.Tensor")
def clamp_min(op: Builder, self: Tensor, min: Any) -> Tensor:
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return clamp(op, self, min, None)


@table("clamp_max", "clamp_max.Tensor")
def clamp_max(op: Builder, self: Tensor, max: Any) -> Tensor:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return clamp(op, self, None, max)


# Selections


@table("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(op: Builder, condition: Tensor, self: Any, other: Any) -> Tensor:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return select(op, condition, *promote(op, self, other))


@table("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(op: Builder, self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return select(op, mask, op.cast(truncate_like_torch(value, self.dtype), self.dtype), self)
