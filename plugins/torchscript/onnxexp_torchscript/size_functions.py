"""Record ``math.sqrt(n)`` of a size, in place of the example's number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp_torchscript.inplace_size_arithmetic import is_size

__all__ = ["size_functions"]

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"sqrt": torch.sqrt, "exp": torch.exp, "log2": torch.log2}
"""Functions of Python's math module, each with torch's."""


def size_functions() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of functions of `math`."""
    for name, function in _FUNCTIONS.items():
        yield math, name, _unless_size(getattr(math, name), function)


def _unless_size(original: Callable[..., Any], function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def call(number: Any, /) -> Any:
        traced = isinstance(number, torch.Tensor) and torch._C._is_tracing() and is_size(number)
        return function(number) if traced else original(number)

    return call
