"""frexp and nextafter by arithmetic; ONNX has no access to bits."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.math.comparison_and_bitwise import equal
from onnxexp_aten.math.to_float64 import where_float64
from onnxexp_aten.support.type_promotion import promote

table = SymbolicTable("aten")


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
