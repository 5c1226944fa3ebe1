"""Greatest common divisor and least common multiple.

Euclid's algorithm runs in a loop until every element is done.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.support.kernel_dtypes import compute, running_dtype
from onnxexp_aten.support.type_promotion import promote

table = SymbolicTable("aten")

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
