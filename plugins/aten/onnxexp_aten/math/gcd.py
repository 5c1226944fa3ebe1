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
    zero = op.constant(0, one.dtype)
    same_sizes = op.Mul(op.Add(one, other), zero)

    def body(number: Tensor, a: Tensor, b: Tensor) -> tuple[Any, list[Tensor], list[Tensor]]:
        left = op.cast(b, torch.bool)
        rest = op.Sub(a, op.Mul(op.Div(a, op.Where(left, b, op.constant(1, one.dtype))), b))
        rest = op.Where(left, rest, zero)
        going = op.ReduceMax(op.cast(op.cast(rest, torch.bool), torch.int32), keepdims=0)
        return going, [op.Where(left, b, a), rest], []

    start = op.Abs(op.Add(one, same_sizes)), op.Abs(op.Add(other, same_sizes))
    return op.loop(_ROUNDS, op.constant(True), body, start)[0]


@table("gcd")
def gcd(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """gcd(Tensor self, Tensor other) -> Tensor"""
    one, two = promote(op, self, other)
    inner = running_dtype(op, "Mul", one.dtype)
    inner = inner if inner in (torch.int32, torch.int64) else torch.int32
    return op.cast(_divisor(op, op.cast(one, inner), op.cast(two, inner)), one.dtype)


@table("lcm")
def lcm(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """lcm(Tensor self, Tensor other) -> Tensor"""
    one, two = promote(op, self, other)
    divisor = gcd(op, one, two)
    divisor = select(op, op.cast(divisor, torch.bool), divisor, op.constant(1, one.dtype))
    product = compute(op, "Mul", compute(op, "Div", one, divisor), two)
    return compute(op, "Abs", product)
