"""Binding calls to torch's operator schemas, so that every frontend gives the same node for the same call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["bind", "full_name", "overload"]


def full_name(op: torch._ops.OpOverload) -> str:
    """``aten::add.Tensor``; the default overload has no suffix."""
    name: str = op._schema.name
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def overload(name: str) -> torch._ops.OpOverload | None:
    """The torch operator of a full name, None where there is none (``prim::If``, Python's scalar arithmetic)."""
    packet, _, suffix = name.partition(".")
    namespace, _, base = packet.partition("::")
    found = getattr(getattr(torch.ops, namespace), base, None)  # torch.ops resolves names on access
    if found is None or (suffix or "default") not in found.overloads():
        return None
    resolved: torch._ops.OpOverload = getattr(found, suffix or "default")
    return resolved


def bind(schema: torch.FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Every argument of the schema in order, defaults filled in; a scalar given for a list stands for a list of one."""
    bound = []
    for index, argument in enumerate(schema.arguments):
        if index < len(args):
            value = args[index]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            value = argument.default_value
        bound.append(value)
    return bound
