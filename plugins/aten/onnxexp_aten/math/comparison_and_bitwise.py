"""Comparisons, logic and bitwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.math.arithmetic import both, floor_divide, nonzero, select
from onnxexp_aten.support.kernel_dtypes import LEAST_DTYPE, compare, compute, runs
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.type_promotion import promote
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")

_OPPOSITE: Mapping[str, str] = MappingProxyType({"LessOrEqual": "Greater", "GreaterOrEqual": "Less"})


def equal(op: Builder, one: Tensor, other: Tensor) -> Tensor:
    """Return where two tensors of one dtype are equal; NaN equals nothing."""
    if not one.dtype.is_floating_point or runs(op, "Equal", torch.float32):
        return compare(op, "Equal", one, other)
    different = op.Or(compare(op, "Less", one, other), compare(op, "Greater", one, other))
    return op.Not(_or_unordered(op, different, one, other))


def relate(op: Builder, name: str, one: Tensor, other: Tensor) -> Tensor:
    """Compare two tensors of one dtype, bool included, by an order relation.

    `name` is ``Less``, ``LessOrEqual``, ``Greater`` or ``GreaterOrEqual``.
    """
    if name not in _OPPOSITE or runs(op, name, torch.float32):
        return compare(op, name, one, other)
    opposite = compare(op, _OPPOSITE[name], one, other)
    return op.Not(_or_unordered(op, opposite, one, other) if one.dtype.is_floating_point else opposite)


def _or_unordered(op: Builder, condition: Tensor, *operands: Tensor) -> Tensor:
    """Compute where `condition` is true or an operand is NaN."""
    for operand in operands:
        if operand.const is None or operand.const.isnan().any():
            condition = op.Or(condition, compare(op, "IsNaN", operand))
    return condition


def _names(name: str, *aliases: str) -> list[str]:
    return [f"{packet}.{overload}" for packet in (name, *aliases) for overload in ("Tensor", "Scalar")]


@table(*_names("eq"))
def eq(op: Builder, self: Tensor, other: Any) -> Tensor:
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return equal(op, *promote(op, self, other))


@table(*_names("ne", "not_equal"))
def ne(op: Builder, self: Tensor, other: Any) -> Tensor:
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    one, other = promote(op, self, other)
    return op.Xor(one, other) if one.dtype == torch.bool else op.Not(equal(op, one, other))


def _relation(name: str, onnx_name: str) -> Callable[[Builder, Tensor, Any], Tensor]:
    def symbolic(op: Builder, self: Tensor, other: Any) -> Tensor:
        return relate(op, onnx_name, *promote(op, self, other))

    symbolic.__doc__ = f"{name}.Tensor(Tensor self, Tensor other) -> Tensor; ONNX's {onnx_name}"
    return symbolic


table(*_names("lt", "less"))(_relation("lt", "Less"))
table(*_names("le", "less_equal"))(_relation("le", "LessOrEqual"))
table(*_names("gt", "greater"))(_relation("gt", "Greater"))
table(*_names("ge", "greater_equal"))(_relation("ge", "GreaterOrEqual"))


@table("isclose")
def isclose(op: Builder, self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    close = equal(op, self, other)
    one, two = (x if x.dtype.is_floating_point else op.cast(x, torch.float32) for x in (self, other))
    allowed = compute(op, "Add", compute(op, "Mul", compute(op, "Abs", two), rtol), atol)
    distance = compute(op, "Abs", compute(op, "Sub", one, two))
    finite = compare(op, "Less", allowed, float("inf"))
    close = op.Or(close, op.And(finite, relate(op, "LessOrEqual", distance, allowed)))
    if equal_nan and self.dtype.is_floating_point:
        close = op.Or(close, op.And(compare(op, "IsNaN", self), compare(op, "IsNaN", other)))
    return close


@table("allclose")
def allclose(op: Builder, self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool"""
    return _all(op, isclose(op, self, other, rtol, atol, equal_nan))


@table("equal")
def equal_tensors(op: Builder, self: Tensor, other: Tensor) -> Any:
    """equal(Tensor self, Tensor other) -> bool"""
    if self.shape is None or other.shape is None or any(isinstance(size, SymbolicSize) for size in (*self.shape, *other.shape)):
        op.decline("the shapes must be known at export")
    return False if self.shape != other.shape else _all(op, equal(op, *promote(op, self, other)))


def _all(op: Builder, x: Tensor) -> Tensor:
    return op.cast(op.ReduceMin(op.cast(x, LEAST_DTYPE), keepdims=0), torch.bool)


# Logic


@table("logical_not")
def logical_not(op: Builder, self: Tensor) -> Tensor:
    """logical_not(Tensor self) -> Tensor"""
    return op.Not(nonzero(op, self))


def _logical(onnx_name: str) -> Callable[[Builder, Tensor, Tensor], Tensor]:
    def symbolic(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        return op.call("", onnx_name, nonzero(op, self), nonzero(op, other))

    symbolic.__doc__ = f"logical_{onnx_name.lower()}(Tensor self, Tensor other) -> Tensor; ONNX's {onnx_name}"
    return symbolic


table("logical_and")(_logical("And"))
table("logical_or")(_logical("Or"))
table("logical_xor")(_logical("Xor"))


# Bits


def _bitwise(logical: str) -> Callable[[Builder, Any, Any], Tensor]:
    def symbolic(op: Builder, self: Any, other: Any) -> Tensor:
        one, two = promote(op, self, other)
        if one.dtype == torch.bool:
            return both(op, one, two) if logical == "And" else op.call("", logical, one, two)
        if runs(op, f"Bitwise{logical}", one.dtype):
            return compute(op, f"Bitwise{logical}", one, two)
        return bitwise(op, logical, one, two)

    symbolic.__doc__ = f"""bitwise_{logical.lower()}.Tensor(Tensor self, Tensor other) -> Tensor

    ONNX's {logical} for bools, Bitwise{logical} (opset 18) or arithmetic for ints. One operand may be a number.
    """
    return symbolic


table(*_names("bitwise_and", "__and__"), "bitwise_and.Scalar_Tensor")(_bitwise("And"))
table(*_names("bitwise_or", "__or__"), "bitwise_or.Scalar_Tensor")(_bitwise("Or"))
table(*_names("bitwise_xor", "__xor__"), "bitwise_xor.Scalar_Tensor")(_bitwise("Xor"))


@table("bitwise_not")
def bitwise_not(op: Builder, self: Tensor) -> Tensor:
    """bitwise_not(Tensor self) -> Tensor; ~x is -1 - x"""
    if self.dtype == torch.bool:
        return op.Not(self)
    if runs(op, "BitwiseNot", self.dtype):
        return op.BitwiseNot(self)
    if self.dtype.is_signed:
        return compute(op, "Sub", op.constant(-1, self.dtype), self)
    return compute(op, "Sub", op.constant(torch.iinfo(self.dtype).max, self.dtype), self)


@table(*_names("__lshift__"), "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Scalar_Tensor")
def left_shift(op: Builder, self: Any, other: Any) -> Tensor:
    """bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor; a product with a power of two"""
    one, two = promote(op, self, other)
    top = torch.iinfo(one.dtype).bits - 1
    return _shifted(op, two, top, lambda power: compute(op, "Mul", one, power), lambda: op.constant(0, one.dtype))


@table(
    *_names("__rshift__"), "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Scalar_Tensor"
)
def right_shift(op: Builder, self: Any, other: Any) -> Tensor:
    """bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor; a quotient rounded down"""
    one, two = promote(op, self, other)

    def sign() -> Tensor:
        zero = op.constant(0, one.dtype)
        return select(op, compare(op, "Less", one, 0), op.constant(-1, one.dtype), zero) if one.dtype.is_signed else zero

    top = torch.iinfo(one.dtype).bits - (2 if one.dtype.is_signed else 1)  # the next power of two is negative
    return _shifted(op, two, top, lambda power: floor_divide(op, one, power), sign)


def _shifted(op: Builder, by: Tensor, top: int, shift: Callable[[Tensor], Tensor], gone: Callable[[], Tensor]) -> Tensor:
    """Shift by a power of two; `gone` replaces shifts below 0 or above `top`."""
    known = by.const
    if known is not None and bool(((known >= 0) & (known <= top)).all()):
        return shift(op.constant(torch.bitwise_left_shift(torch.ones_like(known), known)))
    outside = compare(op, "Greater", by, top)
    if by.dtype.is_signed:
        outside = op.Or(compare(op, "Less", by, 0), outside)
    inside = select(op, outside, op.constant(0, by.dtype), by)
    return select(op, outside, gone(), shift(compute(op, "Pow", op.constant(2, by.dtype), inside)))


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
