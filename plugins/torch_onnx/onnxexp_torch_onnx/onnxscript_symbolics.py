"""onnxscript functions as symbolics, in the form of torch's newer exporter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnxexp import Builder, OptionError, SymbolicTable


def translations(table: Mapping[Any, Callable[..., Any]]) -> SymbolicTable:
    """Build a table of symbolics from onnxscript functions by operator.

    A key is an overload, a packet (all overloads), or a name. Raises OptionError for other keys and other functions.
    """
    made = SymbolicTable("aten", override=True)
    for key, function in table.items():
        if not hasattr(function, "function_ir"):  # onnxscript's class has it; the plugin does not need onnxscript itself
            raise OptionError(
                f"custom_translation_table: the value of {key} is {function!r}, which is no onnxscript function; "
                "to fix this, decorate it with @onnxscript.script()"
            )
        made(_name(key))(_symbolic(function, key))
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
