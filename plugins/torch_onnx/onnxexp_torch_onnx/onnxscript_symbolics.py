"""Functions by operator as symbolics, in the form of torch's newer exporter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any

import torch

from onnxexp import Builder, OptionError, SymbolicTable, warn
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from onnxexp_torch_onnx.traced_functions import traced


def translations(table: Mapping[Any, Callable[..., Any]]) -> SymbolicTable:
    """Build a table of symbolics from functions by operator.

    A function is onnxscript's, or a plain one that calls onnxscript's operators. A key is an overload, a packet (all overloads),
    or a name. A function of Python, ``operator.floordiv``, is left out with a warning: it is about sizes, which are no
    operators here. Raises OptionError for other keys and other values.
    """
    made = SymbolicTable("aten", override=True)
    for key, function in table.items():
        if isinstance(key, BuiltinFunctionType) or getattr(key, "__module__", "") == "_operator":
            warn(f"custom_translation_table: {key} has no effect: onnxexp computes sizes itself", OnnxExporterWarning)
        elif hasattr(function, "function_ir") and not hasattr(function, "func"):  # onnxscript's class, but that of traced ones
            made(_name(key))(_symbolic(function, key))
        elif callable(function):
            made(_name(key))(traced(function, key))
        else:
            raise OptionError(f"custom_translation_table: the value of {key} is {function!r}; it must be a function")
    return made


def _name(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, torch._ops.OpOverload):
        return str(key.name())  # type: ignore[no-untyped-call] # torch annotates nothing there
    if isinstance(key, torch._ops.OpOverloadPacket):
        return str(key._qualified_op_name)
    raise OptionError(f"custom_translation_table: {key!r} is not a torch operator")


def _symbolic(function: Any, key: Any) -> Callable[..., Any]:
    def translated(op: Builder, *args: Any) -> Any:
        definition = function.function_ir
        count = len(definition.inputs)
        attributes = dict(zip(definition.attributes, args[count:], strict=False))
        return op.function(function, *args[:count], **{name: value for name, value in attributes.items() if value is not None})

    translated.__name__ = getattr(function, "name", str(key))  # an onnxscript function has its name there
    return translated


@dataclasses.dataclass(frozen=True)
class CombinedTables:
    """Several tables as one plugin, where the first that lowers an operator wins.

    As separate plugins of one call, tables that lower the same operator would be a conflict.
    """

    symbolics: tuple[SymbolicTable, ...]


def combined(*tables: SymbolicTable) -> list[Any]:
    """Combine the tables with symbolics into at most one plugin.

    The first table that lowers an operator wins.
    """
    found = tuple(table for table in tables if len(table))
    return list(found) if len(found) < 2 else [CombinedTables(found)]
