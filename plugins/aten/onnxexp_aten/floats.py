"""The parts of floating-point numbers, without looking at their bits, which ONNX cannot."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, promote
from onnxexp_aten.elementwise import select
from onnxexp_aten.wide import choose, same

__all__: list[str] = []


def _exponent(op: Builder, size: Tensor) -> Tensor:
    """The e of ``size = m * 2**e`` with m from 1 to 2, of positive float64; the logarithm may be off by a hair."""
    guess = op.Floor(op.Div(op.Log(size), math.log(2)))
    mantissa = op.Div(size, op.Pow(op.constant(2.0, torch.float64), guess))
    too_low = op.cast(op.Not(op.Less(mantissa, 2.0)), torch.float64)
    return op.Sub(op.Add(guess, too_low), op.cast(op.Less(mantissa, 1.0), torch.float64))  # type: ignore[no-any-return]


def _positive(op: Builder, size: Tensor) -> Tensor:
    """Where a float64 tensor is a number that has an exponent."""
    return op.And(op.Greater(size, 0.0), op.Less(size, math.inf))  # type: ignore[no-any-return]


@aten("frexp.Tensor")
def frexp(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    x = op.cast(self, torch.float64)
    size = op.Abs(x)
    plain = _positive(op, size)
    exponent = op.Add(_exponent(op, choose(op, plain, size, 1.0)), 1.0)
    mantissa = op.Div(x, op.Pow(op.constant(2.0, torch.float64), exponent))
    return op.cast(choose(op, plain, mantissa, x), self.dtype), op.cast(choose(op, plain, exponent, 0.0), torch.int32)


@aten("nextafter")
def nextafter(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """nextafter(Tensor self, Tensor other) -> Tensor"""
    one, two = promote(op, self, other)
    if one.dtype == torch.float64:
        op.decline("the step is computed in float64, of which it is the last place")
    x, goal = op.cast(one, torch.float64), op.cast(two, torch.float64)
    size = op.Abs(x)
    info = torch.finfo(one.dtype)
    first, digits = math.log2(info.tiny), -math.log2(info.eps)
    exponent = _exponent(op, op.Min(op.Max(size, op.constant(info.tiny, torch.float64)), info.max))
    # Towards zero from a power of two the step is half as large.
    inwards = op.Less(op.Mul(op.Sub(goal, x), op.Sign(x)), 0.0)
    edge = same(op, size, op.Pow(op.constant(2.0, torch.float64), exponent))
    smaller = op.And(op.And(inwards, edge), op.Greater(exponent, first))
    step = op.Pow(op.constant(2.0, torch.float64), op.Sub(op.Sub(exponent, digits), op.cast(smaller, torch.float64)))
    moved = op.cast(op.Add(x, op.Mul(op.Sign(op.Sub(goal, x)), step)), one.dtype)
    infinite = op.And(op.Not(op.Less(size, math.inf)), inwards)
    moved = select(op, infinite, op.Mul(op.Sign(one), info.max), moved)
    result = select(op, op.Or(op.Less(x, goal), op.Greater(x, goal)), moved, two)
    return select(op, op.Or(op.IsNaN(one), op.IsNaN(two)), op.Add(one, two), result)
