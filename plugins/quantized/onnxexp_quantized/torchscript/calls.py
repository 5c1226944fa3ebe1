"""Calls of a TorchScript graph, as Python calls."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_quantized.capture.model_patches import QUANTIZING
from onnxexp_quantized.capture.quantized_tensor import StandIn, call


def _number(convert: Callable[[Any], Any], value: Any) -> Any:
    """Read a number: of a tensor, unless it is the tracer's."""
    if not isinstance(value, torch.Tensor):
        return convert(value)
    if not torch._C._is_tracing():
        return convert(value.item())
    return value.long() if convert is torch.sym_int and value.is_floating_point() else value


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return x / y
    return x // y if rounding_mode == "floor" or (x < 0) == (y < 0) else -(-x // y)


def _slice(x: Any, *given: Any) -> Any:
    """slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[], and slice.Tensor, which has an axis before these"""
    axis, limits = (0, given) if isinstance(x, (list, str)) else (given[0], given[1:])
    return x[(slice(None),) * (axis % x.dim()) + (slice(*limits),)] if axis else x[slice(*limits)]


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _raise(message: str, *_: Any) -> None:
    raise CaptureError(f"the program raises an exception: {message}; to fix this, pass example inputs that it accepts")


_PYTHON: dict[str, Callable[..., Any]] = {
    "aten::size": lambda x, *axis: x.size(*axis) if axis else list(x.shape),
    "aten::dim": lambda x: x.dim(),
    "aten::len": lambda x: len(x) if isinstance(x, (list, dict, str)) else x.size(0),
    "aten::__is__": operator.is_, "aten::__isnot__": operator.is_not, "aten::__not__": operator.not_,
    "aten::__contains__": operator.contains, "aten::__getitem__": operator.getitem, "aten::append": _append,
    "aten::list": list, "aten::format": str.format, "aten::warn": lambda *_: None,
    "aten::slice": _slice, "aten::Bool": functools.partial(_number, bool),
    **dict.fromkeys(("aten::Int", "aten::IntImplicit"), functools.partial(_number, torch.sym_int)),
    **dict.fromkeys(("aten::Float", "aten::FloatImplicit"), functools.partial(_number, torch.sym_float)),
    **dict.fromkeys(("aten::item", "aten::ScalarImplicit"), functools.partial(_number, lambda value: value)),
    "prim::dtype": lambda x: TYPE_CODES.code(x.dtype), "prim::device": lambda x: x.device,
    "prim::min": min, "prim::max": max, "prim::RaiseException": _raise,
    "prim::NumToTensor": lambda value: value, "prim::unchecked_cast": lambda value: value,
}  # fmt: skip
"""Operators on lists and texts, and those that read facts and numbers of tensors."""
_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::add": lambda x, y, alpha=1: x + (y if alpha == 1 else alpha * y),
    "aten::sub": lambda x, y, alpha=1: x - (y if alpha == 1 else alpha * y),
    **{f"aten::{name}": vars(operator)[name] for name in ("mul", "neg", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "aten::__and__": operator.and_, "aten::__or__": operator.or_, "aten::remainder": operator.mod,
    "aten::div": _divide, "aten::floordiv": operator.floordiv, "aten::floor_divide": operator.floordiv,
}  # fmt: skip
"""Operators that Python computes on numbers and lists, and torch on tensors."""


def call_operator(name: str, args: Sequence[Any]) -> Any:
    """Call an operator, such as ``aten::add.Tensor``, with the arguments of its node.

    Raises CaptureError for an operator that nothing here can run.
    """
    packet, _, overload = name.partition(".")
    if packet in _PYTHON:
        return _PYTHON[packet](*args)
    namespace, _, short = packet.partition("::")
    if namespace == "prim":
        raise CaptureError(f"TorchScript's {packet} in a quantized model cannot be exported; to fix this, export the eager model")
    found = getattr(getattr(getattr(torch.ops, namespace), short), overload or "default")  # by the node's name
    leaves = pytree.tree_leaves(list(args))
    kinds = [str(argument.type) for argument in found._schema.arguments]
    of_tensors = any("Tensor" in kind for kind in kinds) and any(isinstance(leaf, (torch.Tensor, StandIn)) for leaf in leaves)
    traced_number = any(kind == "number" and isinstance(given, torch.Tensor) for kind, given in zip(kinds, args, strict=False))
    if packet in _ON_NUMBERS and (traced_number or not of_tensors):
        return _ON_NUMBERS[packet](*args)
    given, named = _bound(found._schema, args)
    if namespace == "aten" and short in QUANTIZING:
        return QUANTIZING[short](*given, **named)
    function: Any = _function(found, args)
    if any(isinstance(leaf, StandIn) for leaf in leaves):
        return call(function, given, named)
    return function(*given, **named)


def _function(found: Any, args: Sequence[Any]) -> Any:
    """Return the function for these arguments.

    An overload takes no numbers in place of tensors. Only torch's Python functions record the tracer's sizes, which are tensors.
    """
    pairs = [(str(argument.type), given) for argument, given in zip(found._schema.arguments, args, strict=False)]
    if any(
        "Tensor" not in kind and any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(given))
        for kind, given in pairs
    ):
        name = found.overloadpacket.__name__
        home = next((owner for owner in (torch, torch._C._nn, torch.Tensor) if hasattr(owner, name)), None)
        if home is None:
            raise CaptureError(
                f"{name} with a size that depends on the input cannot be traced; to fix this, use capture='export'"
            )
        return getattr(home, name)  # by the operator's name
    return found.overloadpacket if any(kind == "Tensor" and isinstance(given, (int, float)) for kind, given in pairs) else found


def _bound(schema: Any, args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Bind arguments to a schema: codes of dtypes become dtypes."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(schema.arguments, args, strict=False):
        values = TYPE_CODES.of_argument(argument)
        if values is not None and type(value) is int:
            value = values[value]
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            given.append(value)
    return given, named
