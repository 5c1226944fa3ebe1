"""Convert fake tensors and symbolic numbers to values and types of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp._neutral_graph import Dim, ScalarType, TensorType, Type, Value
from onnxexp._symbolic_size import SymbolicSize

_SAME_NAME = ("add", "sub", "mul", "floordiv", "pow", "neg", "eq", "ne", "lt", "le", "gt", "ge")
SCALAR_OPS: dict[Any, str] = {
    **{getattr(operator, name): f"aten::{name}" for name in _SAME_NAME},
    operator.truediv: "aten::div",
    operator.mod: "aten::remainder",
    operator.and_: "aten::__and__",
    operator.or_: "aten::__or__",
    operator.not_: "aten::__not__",
    math.ceil: "aten::ceil",
    math.floor: "aten::floor",
    math.trunc: "aten::Int",
    torch._sym_sqrt: "aten::sqrt",  # type: ignore[attr-defined] # torch makes its sym functions at import
    torch.sym_max: "prim::max",
    torch.sym_min: "prim::min",
    torch.sym_not: "aten::__not__",
    torch.sym_float: "aten::Float",
    torch.sym_int: "aten::Int",
    torch.sym_sum: "aten::sum",
    torch.sym_ite: "prim::ternary",
    round: "aten::round",
}
"""Python's arithmetic on sizes, under TorchScript's operator names."""

DROPPED = {
    "aten::_assert_scalar",
    "aten::_assert_async.msg",
    "aten::_assert_async",
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
}
"""Assertion operators. They hold for the example, and ONNX has no counterpart."""


def type_of(meta: Any, dim_of: Callable[[Any], Dim]) -> Type:
    """Return the type of a fake tensor or symbolic number."""
    if isinstance(meta, torch.Tensor):
        sizes: Sequence[Any] = meta.shape
        return TensorType(meta.dtype, tuple(size if isinstance(size, int) else dim_of(size) for size in sizes))
    if isinstance(meta, (bool, torch.SymBool)):
        return ScalarType(bool)
    if isinstance(meta, (int, torch.SymInt)):
        return ScalarType(int, SymbolicSize(str(dim_of(meta))))
    if isinstance(meta, (float, torch.SymFloat)):
        return ScalarType(float)
    return TensorType(None, None)


def typed_value(name: str, meta: Any, dim_of: Callable[[Any], Dim]) -> Any:
    """Create a value of `meta`'s type, or nested lists of values.

    A node lists the leaves as its outputs.
    """
    if isinstance(meta, (list, tuple)):
        return [typed_value(f"{name}_{index}", one, dim_of) for index, one in enumerate(meta)]
    return Value(name, type_of(meta, dim_of))


def scalar_op(name: str, args: Sequence[Any]) -> str:
    """Return the overload of a scalar operator for these arguments."""
    kinds = [arg.type.kind if isinstance(arg, Value) and isinstance(arg.type, ScalarType) else type(arg) for arg in args]
    overload = "float" if float in kinds else "bool" if kinds and all(kind is bool for kind in kinds) else "int"
    return f"{name}.{overload}"
