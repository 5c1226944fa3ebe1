"""Bitwise And, Or and Xor from arithmetic, for opsets below 18."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.view_nodes import unsqueezed


def bitwise(op: Builder, logical: str, one: Tensor, other: Tensor) -> Tensor:
    """Compute ``And``, ``Or`` or ``Xor`` of two integer tensors of one dtype.

    The bits are computed along a new last axis.
    """
    dtype, limits = one.dtype, torch.iinfo(one.dtype)
    count = limits.bits - 1 if limits.min < 0 else limits.bits
    wide = [op.cast(x, torch.int64) for x in (one, other)]
    left, right = (_low_bits(op, x, count) for x in wide)
    result = _number(op, _combined(op, logical, left, right), count)
    if limits.min < 0:
        negative = op.call("", logical, *(op.Less(x, 0) for x in wide))
        result = op.Where(negative, op.Add(result, op.constant(limits.min, torch.int64)), result)
    return op.cast(result, dtype)


def _number(op: Builder, bits: Tensor, count: int) -> Tensor:
    """Compute the integer of these bits, from two halves.

    ONNX Runtime sums int64 in float64, which has only 53 bits.
    """
    result: Any = None
    for start in range(0, count, 32):
        powers = torch.tensor([1 << (k - start) if start <= k < start + 32 else 0 for k in range(count)])
        part = op.ReduceSum(op.Mul(bits, op.constant(powers)), axes=[-1], keepdims=0)
        result = part if result is None else op.Add(result, op.Mul(part, 1 << start))
    return result


def _low_bits(op: Builder, x: Tensor, count: int) -> Tensor:
    """Return the bits without the sign bit, lowest first, int64[..., count]."""
    half = 1 << (count - 1)  # added twice, because twice `half` may overflow int64
    rest = unsqueezed(op, op.Where(op.Less(x, 0), op.Add(op.Add(x, half), half), x), [rank_of(op, x)])
    shifted = op.Div(rest, op.constant(torch.tensor([1 << k for k in range(count)])))
    return op.Sub(shifted, op.Mul(op.Div(shifted, 2), 2))


def _combined(op: Builder, logical: str, left: Tensor, right: Tensor) -> Any:
    both = op.Mul(left, right)
    if logical == "And":
        return both
    return op.Sub(op.Add(left, right), both if logical == "Or" else op.Mul(both, 2))
