"""Python's functions of sizes, which torch.export evaluates in non-strict mode.

``len(x)``, ``range(0, n, n)`` and ``math.sqrt(x.shape[0])`` work with numbers of Python, which would fix a dynamic axis.
``(n > 3) != 0`` is always True in torch, since no symbolic condition equals a number.
"""

from __future__ import annotations

import builtins
import contextlib
import linecache
import math
import sys
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxexp import is_in_onnx_export
from onnxexp.frontends import replace_attributes

_len, _range = builtins.len, builtins.range
_ELEMENTS = 16
"""More than the elements of any range of symbolic bounds."""
_SYMBOLIC: Any = torch
"""torch's functions for symbolic numbers, which have no types."""


def _length(of: Any, /) -> Any:
    """Return ``len`` of a tensor as a symbolic size."""
    if isinstance(of, torch.Tensor) and of.dim() and isinstance(size := of.shape[0], torch.SymInt):
        return size
    return _len(of)


class _RangeLike(type):
    """The class of `_Range`: ranges are its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _range)


class _Range(metaclass=_RangeLike):
    """``range`` of symbolic bounds that are a fixed number of steps apart.

    ``range(0, n, n)`` has this number of elements at all sizes, and for a step of either sign.
    """

    def __new__(cls, *bounds: Any) -> Any:
        if not any(isinstance(bound, torch.SymInt) for bound in bounds):
            return _range(*bounds)
        start, stop, step = (0, *bounds, 1) if _len(bounds) == 1 else (*bounds, 1)[:3]
        for count in _range(_ELEMENTS):
            if statically_known_true(stop - start == count * step):
                return [start + place * step for place in _range(count)]
        return _range(*bounds)


def _or_symbolic(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(number: Any, /) -> Any:
        return function(number) if isinstance(number, (torch.SymInt, torch.SymFloat)) else original(number)

    return call


def _equal(condition: torch.SymBool, other: Any) -> Any:
    """Compare a condition as Python does, where True is 1 and False is 0."""
    if not is_in_onnx_export() or not isinstance(other, (bool, int, float, torch.SymInt, torch.SymFloat)):
        return _EQUAL(condition, other)
    if isinstance(other, (torch.SymInt, torch.SymFloat)):
        return _SYMBOLIC.sym_ite(condition, 1, 0) == other
    if other not in (0, 1):
        return False
    return condition if other else _SYMBOLIC.sym_not(condition)


def _unequal(condition: torch.SymBool, other: Any) -> Any:
    if not is_in_onnx_export():
        return object.__ne__(condition, other)
    equal = _equal(condition, other)
    return equal if equal is NotImplemented else _SYMBOLIC.sym_not(equal)


_EQUAL: Any = torch.SymBool.__eq__


def _loops(module: ModuleType) -> bool:
    """Return whether the file of a module has a range."""
    return any("range(" in line for line in linecache.getlines(getattr(module, "__file__", None) or ""))


def keep_size_functions(model: torch.nn.Module) -> contextlib.AbstractContextManager[None]:
    """Let these functions return symbolic numbers.

    ``len`` and ``range`` are replaced only in the files of the modules' forwards, since torch calls them very often in a capture.
    """
    forwards = (vars(module).get("forward", type(module).forward) for module in model.modules())
    names = {forward.__module__ for forward in forwards if isinstance(forward, (FunctionType, MethodType))}
    own = [sys.modules[name] for name in names if name in sys.modules and name.partition(".")[0] not in ("torch", "onnxexp")]
    table: list[tuple[Any, str, Any]] = [(module, "len", _length) for module in own]
    table += [(module, "range", _Range) for module in own if _loops(module)]
    table.append((math, "sqrt", _or_symbolic(math.sqrt, _SYMBOLIC.sym_sqrt)))
    return replace_attributes([*table, (torch.SymBool, "__eq__", _equal), (torch.SymBool, "__ne__", _unequal)])
