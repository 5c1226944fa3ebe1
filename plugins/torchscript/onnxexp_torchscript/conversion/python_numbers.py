"""Python's numbers in a TorchScript graph: sizes, and arithmetic on them.

The tracer records them as 0-d tensors (`prim::NumToTensor`, constants such as ``Long() {2}``) and calls tensor operators on
them. Here they are numbers again, so that they promote, fold and print as the numbers of the user's program.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from onnxexp.graph import ScalarType, TensorType, Value
from onnxexp.rewriting import dtype_of_number
from onnxexp_torchscript.types.abstract_tensor import static_truth

_SYMBOLIC: Any = torch
"""torch's functions for symbolic numbers, which have no types."""


class Writer(Protocol):
    """The interpreter's methods that arithmetic uses."""

    def number(self, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Compute in Python if all numbers are known, else emit a node."""

    def emit(self, name: str, args: Sequence[Any]) -> Any:
        """Emit a call of a torch operator."""

    def constant(self, tensor: torch.Tensor) -> Value:
        """Return the value of a constant."""


class Number:
    """A number that the TorchScript graph has as a 0-d tensor of this dtype."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: torch.dtype) -> None:
        self.value = value
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Number({self.value!r})"


def meets_scalars(args: Sequence[Any]) -> bool:
    """Return whether numbers meet 0-d tensors only.

    A trace has such numbers as tensors, and records a wider dtype than eager's.
    """
    tensors = [arg.type.sizes for arg in args if isinstance(arg, Value) and isinstance(arg.type, TensorType)]
    return any(isinstance(arg, Number) for arg in args) and bool(tensors) and not any(tensors)


def is_number(arg: Any) -> bool:
    """Return whether an argument is a number: known, a value, or wrapped."""
    if isinstance(arg, Value):
        return isinstance(arg.type, ScalarType)
    return isinstance(arg, (bool, int, float, Number))


def unwrap(arg: Any) -> Any:
    """Unwrap a number from its 0-d tensor; return anything else as it is."""
    return arg.value if isinstance(arg, Number) else arg


def _truncated(value: Any) -> Any:
    if isinstance(value, torch.SymBool):  # int() of it is a guard
        return _SYMBOLIC.sym_ite(value, 1, 0)
    return int(value) if isinstance(value, (bool, int, float)) else _SYMBOLIC.sym_int(value)


def _to_float(value: Any) -> Any:
    return (
        float(value)
        if isinstance(value, (bool, int, float))
        else _SYMBOLIC.sym_float(_truncated(value) if isinstance(value, torch.SymBool) else value)
    )


def _to_bool(value: Any) -> Any:
    return bool(value) if isinstance(value, (bool, int, float)) else value if isinstance(value, torch.SymBool) else value != 0


def minimum(one: Any, other: Any) -> Any:
    """Return the smaller of two known or symbolic numbers."""
    return min(one, other) if isinstance(one, (int, float)) and isinstance(other, (int, float)) else _SYMBOLIC.sym_min(one, other)


def maximum(one: Any, other: Any) -> Any:
    """Return the larger of two known or symbolic numbers."""
    return max(one, other) if isinstance(one, (int, float)) and isinstance(other, (int, float)) else _SYMBOLIC.sym_max(one, other)


def _not(value: Any) -> Any:
    return not value if isinstance(value, (bool, int)) else _SYMBOLIC.sym_not(value)


_BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "aten::add": ("aten::add", operator.add),
    "aten::sub": ("aten::sub", operator.sub),
    "aten::rsub": ("aten::sub", lambda a, b: b - a),
    "aten::mul": ("aten::mul", operator.mul),
    "aten::div": ("aten::div", operator.truediv),
    "aten::true_divide": ("aten::div", operator.truediv),
    "aten::floordiv": ("aten::floordiv", operator.floordiv),
    "aten::floor_divide": ("aten::floordiv", operator.floordiv),
    "aten::__floordiv__": ("aten::floordiv", operator.floordiv),
    "aten::remainder": ("aten::remainder", operator.mod),
    "aten::pow": ("aten::pow", operator.pow),
    "aten::eq": ("aten::eq", operator.eq),
    "aten::ne": ("aten::ne", operator.ne),
    "aten::lt": ("aten::lt", operator.lt),
    "aten::le": ("aten::le", operator.le),
    "aten::gt": ("aten::gt", operator.gt),
    "aten::ge": ("aten::ge", operator.ge),
    "aten::__and__": ("aten::__and__", operator.and_),
    "aten::__or__": ("aten::__or__", operator.or_),
    "aten::__xor__": ("aten::__xor__", operator.xor),
    "aten::logical_and": ("aten::__and__", operator.and_),
    "aten::logical_or": ("aten::__or__", operator.or_),
    "prim::max": ("prim::max", maximum),
    "prim::min": ("prim::min", minimum),
    "aten::maximum": ("prim::max", maximum),
    "aten::minimum": ("prim::min", minimum),
}
_UNARY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "aten::neg": ("aten::neg", operator.neg),
    "aten::__not__": ("aten::__not__", _not),
    "aten::logical_not": ("aten::__not__", _not),
    "aten::ceil": ("aten::ceil", math.ceil),
    "aten::floor": ("aten::floor", math.floor),
    "aten::round": ("aten::round", round),
    "aten::sqrt": ("aten::sqrt", lambda a: math.sqrt(a) if isinstance(a, (int, float)) else _SYMBOLIC.sym_sqrt(a)),
    "aten::Int": ("aten::Int", _truncated),
    "aten::IntImplicit": ("aten::Int", _truncated),
    "aten::trunc": ("aten::Int", _truncated),
    "aten::Float": ("aten::Float", _to_float),
    "aten::FloatImplicit": ("aten::Float", _to_float),
    "aten::Bool": ("aten::Bool", _to_bool),
    "aten::abs": ("prim::abs", abs),
    "prim::abs": ("prim::abs", abs),
}
_OF_CONDITIONS = frozenset(f"aten::{name}" for name in ("__and__", "__or__", "__xor__", "__not__", "Bool", "Int", "Float"))
_OF_EQUAL_KINDS = frozenset(["aten::eq", "aten::ne", "prim::max", "prim::min"])
"""Operators that take conditions, and those that do where both operands are."""
_FUNCTIONS: list[Callable[..., Any]] = [
    *(math.exp, math.log, math.log2, math.log10, math.log1p, math.sin, math.cos, math.tan, math.tanh, math.fabs, math.gcd),
    *(math.factorial, math.isnan, math.isinf, math.isfinite, math.degrees, math.radians, math.copysign, math.fmod, math.atan2),
    *(math.expm1, math.erf),
]
_CONSTANT: dict[str, Callable[..., Any]] = {f"aten::{function.__name__}": function for function in _FUNCTIONS}
_CONSTANT |= {"aten::__lshift__": operator.lshift, "aten::__rshift__": operator.rshift, "aten::bin": bin, "aten::hex": hex}
"""Python functions of known numbers."""
_CLAMPS = {"aten::clamp": (0, 1), "aten::clamp_min": (0,), "aten::clamp_max": (1,)}
"""The bounds that an operator takes after the number: the lower one is 0, the upper one 1."""
_SAME = {"aten::item", "aten::ScalarImplicit", "aten::_local_scalar_dense", "prim::NumToTensor", "aten::contiguous"}


def computes(packet: str, args: Sequence[Any]) -> bool:
    """Return whether a call is arithmetic on numbers."""
    if not args or (type(args[0]) is Value and type(args[0].type) is TensorType):
        return False
    name = packet.rstrip("_") if not packet.endswith("__") else packet
    if name in _CONSTANT:
        return all(isinstance(unwrap(arg), (bool, int, float)) for arg in args)
    if name in _CLAMPS:
        return is_number(args[0]) and all(is_number(arg) or arg is None for arg in args[1:])
    known = name in _BINARY or name in _UNARY or name in _SAME
    return known and all(is_number(arg) or arg is None or isinstance(arg, str) for arg in args[:2]) and is_number(args[0])


def compute(writer: Writer, packet: str, args: Sequence[Any]) -> Any:
    """Compute arithmetic on numbers; the result is wrapped if an argument is."""
    name = packet.rstrip("_") if not packet.endswith("__") else packet
    wrapped = any(isinstance(arg, Number) for arg in args)
    if name in _CONSTANT:
        result: Any = _CONSTANT[name](*map(unwrap, args))
    elif name in _SAME:
        return unwrap(args[0]) if name.startswith(("aten::item", "aten::Scalar", "aten::_local")) else args[0]
    elif name in _CLAMPS:
        result = _clamped(writer, name, args)
    elif name in _BINARY:
        result = _binary(writer, name, args)
    else:
        target, function = _UNARY[name]
        result = writer.number(target, function, [unwrap(args[0])])
    unwraps = name in ("aten::Int", "aten::IntImplicit", "aten::Float", "aten::FloatImplicit", "aten::Bool")
    return _like_tensor(wrap(result), args) if wrapped and not unwraps else result


def _like_tensor(number: Number, args: Sequence[Any]) -> Number:
    """Give a whole number the dtype of the 0-d tensor that it is in a trace.

    ``(n / 2).ceil()`` is a float there, as is what is computed from it.
    """
    floating = [arg.dtype for arg in args[:2] if isinstance(arg, Number) and arg.dtype.is_floating_point]
    return Number(number.value, floating[0]) if floating and number.dtype == torch.int64 else number


def _clamped(writer: Writer, name: str, args: Sequence[Any]) -> Any:
    result = unwrap(args[0])
    for bound, limit in zip(_CLAMPS[name], map(unwrap, args[1:]), strict=False):
        if limit is not None:
            target, function = _BINARY["prim::min" if bound else "prim::max"]
            result = writer.number(target, function, [result, limit])
    return result


def _binary(writer: Writer, name: str, args: Sequence[Any]) -> Any:
    one, other = unwrap(args[0]), unwrap(args[1])
    mode = next((arg for arg in args[2:] if isinstance(arg, str)), None)
    alpha = next((unwrap(arg) for arg in args[2:] if is_number(arg)), 1)
    target, function = _BINARY[name]
    if name == "aten::rsub":
        one, other, function = other, one, operator.sub
    if alpha != 1:
        other = writer.number("aten::mul", operator.mul, [other, alpha])
    if mode is not None and name == "aten::div":
        if mode == "trunc" and not isinstance(one, Value) and not isinstance(other, Value):
            return math.trunc(one / other)
        target, function = "aten::floordiv", operator.floordiv  # what is not known is a size, which is never negative
    return writer.number(target, function, [one, other])


def wrap(result: Any) -> Number:
    """Wrap a number as the tracer does, as a 0-d tensor."""
    if isinstance(result, Value):
        assert isinstance(result.type, ScalarType)
        return Number(result, dtype_of_number(result.type.kind()))
    return Number(result, dtype_of_number(result))


def as_tensor(writer: Writer, number: Number) -> Value:
    """Return the 0-d tensor of a wrapped number."""
    if not isinstance(number.value, Value):
        return writer.constant(torch.tensor(number.value, dtype=number.dtype))
    made = writer.emit("aten::scalar_tensor", [number.value, number.dtype, None, None, None])
    assert isinstance(made, Value) and isinstance(made.type, TensorType)
    return made


def operands(writer: Writer, name: str, args: Sequence[Any]) -> Sequence[Any]:
    """Convert conditions to 0 and 1 for an operator that takes numbers.

    Python does so, and torch's symbolic conditions differ from all numbers.
    """
    conditions = [kind_of_argument(arg) is bool for arg in args]
    if not any(conditions) or name in _OF_CONDITIONS or (all(conditions) and name in _OF_EQUAL_KINDS):
        return args
    converted = zip(args, conditions, strict=True)
    return [writer.number("aten::Int", _truncated, [arg]) if condition else arg for arg, condition in converted]


def kind_of_argument(arg: Any) -> type:
    """Return the kind of a value or a known number."""
    return arg.type.kind if isinstance(arg, Value) and isinstance(arg.type, ScalarType) else type(arg)


def known(fake: Any) -> Any:
    """Return the value of a number, or None if symbolic."""
    if isinstance(fake, (bool, int, float)):
        return fake
    expr = fake.node.expr
    if isinstance(fake, torch.SymBool):
        return static_truth(fake)
    return (float(expr) if isinstance(fake, torch.SymFloat) else int(expr)) if expr.is_number else None


def kind_of_result(name: str, kinds: Sequence[type]) -> type:
    """Return the result's kind of arithmetic on numbers of these kinds."""
    if name in ("aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge", "aten::__not__", "aten::Bool"):
        return bool
    if name in ("aten::ceil", "aten::floor", "aten::Int"):
        return int
    if name in ("aten::div", "aten::Float", "aten::sqrt") or float in kinds:
        return float
    return bool if all(kind is bool for kind in kinds) else int
