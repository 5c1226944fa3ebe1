"""Python arithmetic on numbers known only at run time, such as sizes.

Such a number is a 0-d Tensor (int64, float32 or bool). Arithmetic on static numbers runs at export, in Python.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import ScalarType
from onnxexp.rewriting import dtype_of_number
from onnxexp_aten.math.arithmetic import extreme, floor_divide, floor_remainder, select, truncated
from onnxexp_aten.math.comparison_and_bitwise import equal, relate
from onnxexp_aten.math.unary import round_
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.tensor_sizes import made_by

table = SymbolicTable("aten")


def _names(name: str, *, bare: bool = True) -> list[str]:
    """List the names to register: the bare name, or the overloads for numbers.

    A bare name covers every overload without its own entry. It is wrong where a tensor operator has that name.
    """
    return [name] if bare else [f"{name}.{overload}" for overload in ("int", "float", "Scalar")]


def _scalar(
    name: str, python: Callable[..., Any], *, bare: bool = True, unify: bool = True
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register `function(op, *tensors)` for arguments that are not static.

    `python` computes the result of static arguments. With `unify` the tensors have one dtype.
    """

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(function)
        def symbolic(op: Builder, *args: Any) -> Any:
            if op.is_static(args):
                return _of_kind(op, python(*(op.static(arg) for arg in args)))
            return _of_kind(op, function(op, *(_unified(op, args) if unify else args)))

        table(*_names(name, bare=bare))(symbolic)
        return function

    return register


def _unified(op: Builder, args: tuple[Any, ...]) -> list[Tensor]:
    dtypes = {arg.dtype if isinstance(arg, Tensor) else dtype_of_number(arg) for arg in args}
    common = next((d for d in (torch.float64, torch.float32, torch.float16, torch.int64) if d in dtypes), None)
    return [op.cast(arg, common or (torch.bool if dtypes == {torch.bool} else torch.int64)) for arg in args]


def _of_kind(op: Builder, result: Any) -> Any:
    """Convert a result to the kind of number in the captured program."""
    type_ = op.node.outputs[0].type
    kind = type_.kind if isinstance(type_, ScalarType) else None  # TorchScript sometimes records a tensor instead of a number
    if kind is None or not isinstance(result, (Tensor, bool, int, float)):
        return result
    if not isinstance(result, Tensor):
        return kind(result)
    if kind is float and result.dtype.is_floating_point:
        return result
    return op.cast(result, dtype_of_number(kind()))


# Arithmetic


@_scalar("add", operator.add)
def add(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """add.int(int a, int b) -> int"""
    (x, one), (y, other) = _shifted(op, a), _shifted(op, b)
    if x is not None and y is None:
        return _shift(op, x, one + other)
    return _shift(op, y, one + other) if y is not None and x is None else op.Add(a, b)


@_scalar("sub", operator.sub)
def sub(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """sub.int(int a, int b) -> int"""
    (x, one), (y, other) = _shifted(op, a), _shifted(op, b)
    return _shift(op, x, one - other) if x is not None and y is None else op.Sub(a, b)


def _shifted(op: Builder, number: Tensor) -> tuple[Tensor | None, int]:
    """Return an integer as another one plus a constant; None for a constant."""
    if number.dtype != torch.int64:
        return number, 0
    if number.const is not None:
        return (None, int(number.const)) if number.rank == 0 else (number, 0)
    node = op.producer(number) if made_by(op, number, "Add") is not None else None
    for x, y in (node.inputs, reversed(node.inputs)) if node is not None else ():
        if x is not None and y is not None and y.const is not None and y.rank == 0:
            return x, int(y.const)
    return number, 0


def _shift(op: Builder, number: Tensor, by: int) -> Tensor:
    return op.Add(number, by) if by else number


@_scalar("mul", operator.mul)
def mul(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """mul.int(int a, int b) -> int"""
    return op.Mul(a, b)


@_scalar("div", operator.truediv)
def div(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """div.int(int a, int b) -> float"""
    one, two = (x if x.dtype.is_floating_point else op.cast(x, torch.float32) for x in (a, b))
    return op.Div(one, two)


@_scalar("floordiv", operator.floordiv)
def floordiv(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """floordiv.int(int a, int b) -> int"""
    if a.dtype == torch.int64 and _is_natural(op, b):
        if _is_natural(op, a):
            return op.Div(a, b)
        x, constant = _shifted(op, a)
        if x is not None and constant < 0 and b.const is not None and _is_natural(op, x):
            divisor = int(b.const)
            added = -(constant // divisor) if divisor else 0  # so that no dividend is negative: (n - 1)//4 is (n + 3)//4 - 1
            return _shift(op, op.Div(_shift(op, x, constant + added * divisor), b), -added)
    return floor_divide(op, a, b)


def _is_natural(op: Builder, x: Tensor) -> bool:
    """Return whether an integer is provably never negative.

    Sizes are never negative, nor are their sums, products and quotients. A pass cannot infer this: a floor division of other
    integers is several nodes.
    """
    if x.const is not None:
        return bool((x.const >= 0).all())
    if made_by(op, x, "Shape", "Size") is not None:
        return True
    if made_by(op, x, "Add", "Mul", "Div", "Gather", "Squeeze") is None:
        return False
    node = op.producer(x)
    assert node is not None
    count = 2 if node.operator in ("Add", "Mul", "Div") else 1  # the others have positions as second inputs
    return all(given is not None and _is_natural(op, given) for given in node.inputs[:count])


@_scalar("remainder", operator.mod)
def remainder(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """remainder.int(int a, int b) -> int"""
    return floor_remainder(op, a, b)


@_scalar("pow", operator.pow)
def pow_(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """pow.int(int a, int b) -> float"""
    return compute(op, "Pow", a, b)


@_scalar("neg", operator.neg, bare=False)
def neg(op: Builder, a: Tensor) -> Tensor:
    """neg.int(int a) -> int"""
    return op.Neg(a)


@_scalar("sqrt", math.sqrt, bare=False)
def sqrt(op: Builder, a: Tensor) -> Tensor:
    """sqrt.int(int a) -> float"""
    return op.Sqrt(a if a.dtype.is_floating_point else op.cast(a, torch.float32))


# Comparison and logic


@_scalar("eq", operator.eq)
def eq(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """eq.int(int a, int b) -> bool"""
    return equal(op, a, b)


@_scalar("ne", operator.ne)
def ne(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """ne.int(int a, int b) -> bool"""
    return op.Not(equal(op, a, b))


def _relation(name: str, python: Callable[[Any, Any], Any], onnx_name: str) -> None:
    def relation(op: Builder, a: Tensor, b: Tensor) -> Tensor:
        return relate(op, onnx_name, a, b)

    relation.__doc__ = f"{name}.int(int a, int b) -> bool"
    _scalar(name, python)(relation)


_relation("lt", operator.lt, "Less")
_relation("le", operator.le, "LessOrEqual")
_relation("gt", operator.gt, "Greater")
_relation("ge", operator.ge, "GreaterOrEqual")


@_scalar("__and__", operator.and_)
def and_(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """__and__.bool(bool a, bool b) -> bool"""
    return op.And(a, b) if a.dtype == torch.bool else compute(op, "BitwiseAnd", a, b)


@_scalar("__or__", operator.or_)
def or_(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """__or__.bool(bool a, bool b) -> bool"""
    return op.Or(a, b) if a.dtype == torch.bool else compute(op, "BitwiseOr", a, b)


@_scalar("__xor__", operator.xor)
def xor(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """__xor__.bool(bool a, bool b) -> bool"""
    return op.Xor(a, b) if a.dtype == torch.bool else compute(op, "BitwiseXor", a, b)


@_scalar("__not__", operator.not_)
def not_(op: Builder, a: Tensor) -> Tensor:
    """__not__(bool self) -> bool"""
    return op.Not(op.cast(a, torch.bool))


# Rounding and conversions


@_scalar("ceil", math.ceil, bare=False)
def ceil(op: Builder, a: Tensor) -> Tensor:
    """ceil.float(float a) -> int"""
    return op.Ceil(a) if a.dtype.is_floating_point else a


@_scalar("floor", math.floor, bare=False)
def floor(op: Builder, a: Tensor) -> Tensor:
    """floor.float(float a) -> int"""
    return op.Floor(a) if a.dtype.is_floating_point else a


@_scalar("round", round, bare=False)
def round_number(op: Builder, a: Tensor) -> Tensor:
    """round.float(float a) -> float"""
    return round_(op, a)


@_scalar("Int", int, unify=False)
def to_int(op: Builder, a: Tensor) -> Tensor:
    """Int.Scalar(Scalar a) -> int"""
    return op.cast(truncated(op, a) if a.dtype == torch.float16 else a, torch.int64)


@_scalar("Float", float, unify=False)
def to_float(op: Builder, a: Tensor) -> Tensor:
    """Float.Scalar(Scalar a) -> float"""
    return a if a.dtype.is_floating_point else op.cast(a, torch.float32)


@_scalar("Bool", bool, unify=False)
def to_bool(op: Builder, a: Tensor) -> Tensor:
    """Bool.int(int a) -> bool"""
    return op.cast(a, torch.bool)


# Several numbers


def _extremum(name: str, onnx_name: str, python: Callable[..., Any]) -> None:
    def extremum(op: Builder, *args: Any) -> Any:
        numbers = args[0] if len(args) == 1 and isinstance(args[0], list) else list(args)
        if op.is_static(numbers):
            return _of_kind(op, python(op.static(numbers)))
        first, *others = _unified(op, tuple(numbers))
        return _of_kind(op, functools.reduce(lambda one, other: extreme(op, onnx_name, one, other), others, first))

    extremum.__doc__ = f"{name}.int(int a, int b) -> int"
    table(f"prim::{name}")(extremum)


_extremum("max", "Max", max)
_extremum("min", "Min", min)


@table("sum.int", "sum.float", "sum.bool")
def sum_(op: Builder, self: list[Any]) -> Any:
    """sum.int(int[] self) -> int"""
    numbers = [int(number) if isinstance(number, bool) else number for number in self]
    if op.is_static(numbers):
        return _of_kind(op, sum(op.static(numbers)))
    return _of_kind(op, functools.reduce(op.Add, _unified(op, (*numbers,))))


@table("prim::ternary")
def ternary(op: Builder, condition: Any, then: Any, otherwise: Any) -> Any:
    """torch.sym_ite(condition, then, otherwise) -> Scalar"""
    if op.is_static(condition):
        return then if op.static(condition) else otherwise
    return _of_kind(op, select(op, condition, *_unified(op, (then, otherwise))))


# Between tensors and numbers


@table(
    "item", "_local_scalar_dense", "ScalarImplicit", "IntImplicit", "FloatImplicit", "Int.Tensor", "Float.Tensor", "Bool.Tensor"
)
def item(op: Builder, self: Tensor) -> Any:
    """item(Tensor self) -> Scalar; the number in a tensor of one element"""
    if self.const is not None:
        return _of_kind(op, self.const.item())
    number = self if self.rank == 0 else op.Reshape(self, op.constant([], torch.int64))
    assert number.rank == 0  # infers the rank now, for the tensor and for its copy
    return copy.copy(_of_kind(op, number))  # a copy, so that the tensor itself stays a tensor
