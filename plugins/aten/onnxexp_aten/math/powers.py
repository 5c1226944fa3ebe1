"""Powers of floats and of integers."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import both, is_number
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.type_promotion import promote, promoted_dtype

table = SymbolicTable("aten")

_BITS = 64
"""Most rounds of squaring; a power has that many bits."""


@table("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def pow_(op: Builder, self: Any, exponent: Any) -> Tensor:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    dtype = promoted_dtype(self, exponent)
    base = op.cast(self, dtype)
    if is_number(exponent, 1):
        return base
    if dtype.is_floating_point:
        if is_number(exponent, 0.5):
            return compute(op, "Sqrt", base)
        if is_number(exponent, -0.5):
            return compute(op, "Reciprocal", compute(op, "Sqrt", base))
        if is_number(exponent, -1):
            return compute(op, "Reciprocal", base)
    power = op.cast(exponent, dtype)
    if dtype.is_floating_point:
        return compute(op, "Pow", base, power)
    inner = torch.int32 if dtype == torch.int32 else torch.int64
    return op.cast(_whole_power(op, op.cast(base, inner), op.cast(power, inner)), dtype)


def _whole_power(op: Builder, base: Tensor, power: Tensor) -> Tensor:
    """Raise integers by products.

    Pow computes integers as floats, which have 53 bits and do not wrap around.
    """
    if base.const is not None and power.const is not None:
        return op.constant(torch.pow(base.const, power.const))
    if power.const is not None and power.const.numel() == 1 and power.const.item() >= 0:
        found = _product(op, base, int(power.const.item()))
        return found if power.rank == 0 else compute(op, "Add", found, op.Mul(power, 0))
    found = _by_squaring(op, base, power)
    negative = compare(op, "Less", power, 0)
    fraction = both(op, negative, op.Not(compare(op, "Equal", op.Abs(base), 1)))
    return op.Where(fraction, op.constant(0, base.dtype), found)


def _product(op: Builder, base: Tensor, power: int) -> Tensor:
    found: Tensor | None = None
    while power:
        if power % 2:
            found = base if found is None else op.Mul(found, base)
        power //= 2
        base = op.Mul(base, base) if power else base
    return found if found is not None else op.Add(op.Mul(base, 0), 1)


def _by_squaring(op: Builder, base: Tensor, power: Tensor) -> Tensor:
    """Raise to the absolute value of a power that is known at run time."""

    def body(_: Tensor, factor: Tensor, left: Tensor, found: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        half = op.Div(left, 2)
        odd = op.cast(op.Sub(left, op.Mul(half, 2)), torch.bool)
        going = op.cast(op.ReduceSum(op.cast(op.cast(half, torch.bool), torch.int64), keepdims=0), torch.bool)
        return going, [op.Mul(factor, factor), half, op.Where(odd, op.Mul(found, factor), found)], []

    zero = op.Mul(op.Add(base, power), 0)
    start = [op.Add(base, zero), op.Add(op.Abs(power), zero), op.Add(zero, 1)]
    return op.loop(_BITS, op.constant(True), body, start)[2]


@table("float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "float_power.Scalar")
def float_power(op: Builder, self: Any, exponent: Any) -> Tensor:
    """float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    return pow_(op, op.cast(self, torch.float64), op.cast(exponent, torch.float64))


@table("ldexp.Tensor")
def ldexp(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """ldexp.Tensor(Tensor self, Tensor other) -> Tensor; an integer exponent leaves the dtype of a float"""
    dtype = promoted_dtype(self, other)
    if dtype == torch.float64:
        return compute(op, "Mul", op.cast(self, dtype), pow_(op, op.constant(2.0, dtype), op.cast(other, dtype)))
    if self.dtype.is_floating_point and not other.dtype.is_floating_point:
        inner = torch.promote_types(self.dtype, torch.float32)  # the power of 2 may exceed a float16
        power = pow_(op, op.constant(2.0, inner), op.cast(other, inner))
        return op.cast(compute(op, "Mul", op.cast(self, inner), power), self.dtype)
    return compute(op, "Mul", *promote(op, self, pow_(op, 2.0, other)))
