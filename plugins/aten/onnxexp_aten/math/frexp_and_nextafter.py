"""The parts of floating-point numbers, without looking at their bits, which ONNX cannot."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison import equal
from onnxexp_aten.support.to_float64 import choose
from onnxexp_aten.support.type_promotion import promote

__all__ = ["table"]

table = SymbolicTable("aten")


def _exponent(op: Builder, size: Tensor) -> Tensor:
    """The e of ``size = m * 2**e`` with m from 1 to 2, of positive float64; the logarithm may be off by a hair."""
    guess = op.Floor(op.Div(op.Log(size), math.log(2)))
    mantissa = op.Div(size, op.Pow(op.constant(2.0, torch.float64), guess))
    too_low = op.cast(op.Not(op.Less(mantissa, 2.0)), torch.float64)
    return op.Sub(op.Add(guess, too_low), op.cast(op.Less(mantissa, 1.0), torch.float64))  # type: ignore[no-any-return]


def _positive(op: Builder, size: Tensor) -> Tensor:
    """Where a float64 tensor is a number that has an exponent."""
    return op.And(op.Greater(size, 0.0), op.Less(size, math.inf))  # type: ignore[no-any-return]


@table("frexp.Tensor")
def frexp(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    x = op.cast(self, torch.float64)
    size = op.Abs(x)
    plain = _positive(op, size)
    exponent = op.Add(_exponent(op, choose(op, plain, size, 1.0)), 1.0)
    mantissa = op.Div(x, op.Pow(op.constant(2.0, torch.float64), exponent))
    return op.cast(choose(op, plain, mantissa, x), self.dtype), op.cast(choose(op, plain, exponent, 0.0), torch.int32)


@table("nextafter")
def nextafter(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """nextafter(Tensor self, Tensor other) -> Tensor"""
    one, two = promote(op, self, other)
    if one.dtype == torch.float64:
        op.decline("the step is computed in float64, of which it is the last place")
    x, goal = op.cast(one, torch.float64), op.cast(two, torch.float64)
    info = torch.finfo(one.dtype)
    highest = info.max / (1 - info.eps / 2)  # what would follow the last number: infinity is that far from it
    x = op.Max(op.Min(x, highest), -highest)
    # Rounding gives the next number where 0.5 to 1.5 of its distance are added: here it is 0.56 to 1.13 of it.
    step = op.Max(op.Mul(op.Abs(x), 0.5625 * info.eps), op.constant(0.75 * info.tiny * info.eps, torch.float64))
    moved = op.cast(op.Add(x, op.Mul(op.Sign(op.Sub(goal, x)), step)), one.dtype)
    return select(op, equal(op, one, two), two, moved)
