"""Find tensors inside of objects that torch's pytree does not flatten."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import torch


def holds_tensors(value: Any, depth: int = 4) -> bool:
    """Return whether an object that pytree does not flatten has tensors inside."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, type, ModuleType, FunctionType)) or not depth:
        return isinstance(value, torch.Tensor)
    held = (
        [*value.values()] if isinstance(value, Mapping) else [*value] if isinstance(value, (list, tuple, set, frozenset)) else []
    )
    return any(holds_tensors(each, depth - 1) for each in [*held, *getattr(value, "__dict__", {}).values()])  # numbers have none


def library_of(value: Any) -> str:
    """Name the library of an object's class as a namespace, as ``transformers::``."""
    return f"{type(value).__module__.partition('.')[0]}::"
