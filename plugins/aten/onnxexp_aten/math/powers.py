"""Powers of floats and of integers."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import both, is_number, select
from onnxexp_aten.support.kernel_dtypes import compare, compute
from onnxexp_aten.support.type_promotion import promote, promoted_dtype

__all__ = ["pow_", "table"]

table = SymbolicTable("aten")


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
    found = compute(op, "Pow", base, power)
    finite = (base.const is not None and bool(base.const.all())) or (power.const is not None and bool((power.const >= 0).all()))
    if finite or dtype.is_floating_point or not dtype.is_signed:
        return found
    # some kernels convert the infinity of 0 to the power -1 to an integer; eager returns 0
    infinite = both(op, compare(op, "Equal", base, 0), compare(op, "Less", power, 0))
    return select(op, infinite, op.constant(0, dtype), found)


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
