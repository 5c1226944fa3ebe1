"""Record ``int(n / 2)`` and ``float(n)`` of sizes, not the example's numbers.

Python requires that these return a number of its own. The name `int` or `float` of the module that converts a size stands for a
class that returns a traced number there.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from onnxexp.graph import SourceLocation
from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size
from onnxexp_torchscript.trace.size_rounding import truncated

_TAKING = ("isinstance", "issubclass", "map")
"""Functions that take a type as an argument, and to which another callable type is as good."""


class _Conversion(type):
    """The class of `int` and `float` in a trace: `original` for all but sizes."""

    original: Any

    def __call__(cls, *args: Any, **options: Any) -> Any:
        number = args[0] if len(args) == 1 and not options else None
        if isinstance(number, torch.Tensor) and torch._C._is_tracing() and is_size(number) and number.dtype != torch.bool:
            return cls.of_size(number)
        return cls.original(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, cls.original)

    def of_size(cls, number: torch.Tensor) -> Any:
        """Convert a size, or a number that is computed from sizes."""
        if cls.original is int:
            return truncated(number)
        return number if number.is_floating_point() else number / 1


class _Int(metaclass=_Conversion):
    original = int


class _Float(metaclass=_Conversion):
    original = float


_TYPES: dict[str, Any] = {"int": _Int, "float": _Float}


def traced_conversions(recorded: Iterable[Any]) -> list[tuple[Any, str, Any]]:
    """Return replacements (owner, name, type) of `int` and `float`.

    The owners are the modules where the tracer has warned of a conversion.
    """
    converting = ("Converting a tensor to a Python integer", "Converting a tensor to a Python float")
    found = {each.filename for each in recorded if str(each.message).startswith(converting)}
    files = {file for file in found if SourceLocation(file=file).is_user_code}
    if not files:
        return []
    modules = [each for each in list(sys.modules.values()) if getattr(each, "__file__", None) in files]
    return [(module, name, _TYPES[name]) for module in modules for name in _converting_names(module)]


def _converting_names(module: types.ModuleType) -> Iterator[str]:
    """Yield which of `int` and `float` may be replaced in a module.

    The functions of the module must only call them, or use them as types in checks and annotations.
    """
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, SyntaxError, TypeError):
        return
    fit = {id(name) for node in ast.walk(tree) for part in _fitting(node) for name in ast.walk(part)}
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    bodies = [part for node in functions for part in (node.body if isinstance(node.body, list) else [node.body])]
    names = [node for body in bodies for node in ast.walk(body) if isinstance(node, ast.Name) and node.id in _TYPES]
    unfit = {name.id for name in names if id(name) not in fit} | vars(module).keys()
    yield from sorted({name.id for name in names} - unfit)


def _fitting(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node in which a name may stand for another type."""
    if isinstance(node, ast.Call):
        yield node.func
        if isinstance(node.func, ast.Name) and node.func.id in _TAKING:
            yield from node.args
    elif isinstance(node, (ast.arg, ast.AnnAssign)):
        yield from filter(None, [node.annotation])
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from filter(None, [node.returns])
