"""Python's functions of sizes, which torch.export evaluates in non-strict mode.

``len(x)`` and ``math.sqrt(x.shape[0])`` must return numbers of Python, which would fix a dynamic axis.
"""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch

from onnxexp.capture.torch_state import replace_attributes

__all__ = ["keep_size_functions"]

_len = builtins.len
_SYMBOLIC: Any = torch
"""torch's functions for symbolic numbers, which have no types."""


def _length(of: Any, /) -> Any:
    """Return ``len`` of a tensor as a symbolic size."""
    if isinstance(of, torch.Tensor) and of.dim() and isinstance(size := of.shape[0], torch.SymInt):
        return size
    return _len(of)


def _or_symbolic(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(number: Any, /) -> Any:
        return function(number) if isinstance(number, (torch.SymInt, torch.SymFloat)) else original(number)

    return call


def keep_size_functions() -> contextlib.AbstractContextManager[None]:
    """Let these functions return symbolic numbers."""
    table = [(builtins, "len", _length), (math, "sqrt", _or_symbolic(math.sqrt, _SYMBOLIC.sym_sqrt))]
    return replace_attributes(table)
