"""Record ``math.sqrt(n)`` and ``max(n, m)`` of sizes in a trace, not their values."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size
from onnxexp_torchscript.trace.made_constants import no_trace

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"sqrt": torch.sqrt, "exp": torch.exp, "log2": torch.log2}
"""Functions of Python's math module, each with the function of torch that is recorded."""


def size_functions() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of Python's functions of numbers."""
    for name, function in _FUNCTIONS.items():
        yield math, name, _recording_of_size(getattr(math, name), function)
    yield builtins, "max", _recording_of_sizes(max, torch.maximum)
    yield builtins, "min", _recording_of_sizes(min, torch.minimum)


@functools.lru_cache(maxsize=128)
def _recording_of_size(original: Callable[..., Any], function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Return `original`, with a call of `function` recorded where a number is a size."""

    def call(number: Any, /) -> Any:
        traced = isinstance(number, torch.Tensor) and torch._C._is_tracing() and is_size(number)
        return function(number) if traced else original(number)

    return call


@functools.lru_cache(maxsize=128)
def _recording_of_sizes(original: Callable[..., Any], function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Return `original`, with calls of `function` recorded where integers are sizes."""

    def call(*args: Any, **options: Any) -> Any:
        if not torch._C._is_tracing() or options:
            return original(*args, **options)
        numbers = tuple(args[0]) if len(args) == 1 else args  # it may be an iterator
        if not any(map(_is_whole_size, numbers)):
            return original(numbers)
        if not all(type(number) is int or _is_whole_size(number) for number in numbers):
            return original(numbers)
        return functools.reduce(function, map(_as_tensor, numbers))

    return call


def _as_tensor(number: Any) -> torch.Tensor:
    """Return an integer as a constant tensor, and a tensor as it is.

    The tracer would record a conversion of either. The converter takes its result for a tensor, not for a size.
    """
    if isinstance(number, torch.Tensor):
        return number
    with no_trace():
        return torch.tensor(number)


def _is_whole_size(number: Any) -> bool:
    return isinstance(number, torch.Tensor) and number.dtype == torch.int64 and is_size(number)
