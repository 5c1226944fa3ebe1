"""Rounded sizes in a trace.

The trace records operators for ``math.ceil(n / 8)`` and ``n.item()`` of a size, in place of the example's number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp_torchscript.jit.jit_nodes import inputs
from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size
from onnxexp_torchscript.trace.made_constants import no_trace

_tracer: Any = torch._C
_ROUNDING: dict[str, Callable[[float], int]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
_FRACTIONS = 256
"""A traced number is a float32: a product with a multiple of 1/256 is exact for sizes below 2**16."""


def size_rounding() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield attributes (owner, name, function) that Python's math module calls.

    Tensors have no such methods, so that a mode for functions sees no call. ``int(n / 8)`` must return a Python number: see
    `traced_conversions`.
    """
    for name, function in _ROUNDING.items():
        yield torch.Tensor, f"__{name}__", _rounded(getattr(torch, name), function)


def traced_items() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) of ``item``, for sizes."""
    yield torch.Tensor, "item", _number


def truncated(number: torch.Tensor) -> Any:
    """Truncate a traced size; if float32 may round it, take the example's."""
    return _rounded(torch.trunc, math.trunc)(number)


def _number(original: Callable[..., Any], self: torch.Tensor) -> Any:
    return self if _traced(self) and _is_whole(self) else original(self)


@functools.lru_cache(maxsize=128)
def _rounded(traced: Callable[[torch.Tensor], torch.Tensor], function: Callable[[float], int]) -> Callable[..., Any]:
    def call(self: torch.Tensor) -> Any:
        if not _traced(self):
            return function(float(self))
        if _is_whole(self):
            return self
        return traced(self).to(torch.int64) if _is_exact(_tracer._get_value_trace(self).node()) else function(float(self))

    return call


def _traced(tensor: torch.Tensor) -> bool:
    return bool(_tracer._is_tracing()) and is_size(tensor)


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int64


def _is_exact(node: Any) -> bool:
    """Return whether a number is rounded in float32 as in Python's float64.

    A quotient or product of a size and a simple number is. ``n * 0.1`` is not: for 30 it is 3 in float32, and more in float64.
    """
    return node.kind() in ("aten::div", "aten::mul") and all(map(_is_simple, inputs(node)[:2]))


def _is_simple(value: Any) -> bool:
    constant = value.toIValue() if value.node().kind() == "prim::Constant" else None
    if constant is None:
        return bool(value.type().kind() == "TensorType" and value.type().dtype() == torch.int64)
    with no_trace():
        number = float(constant)
    return 0 < abs(number) < _FRACTIONS**2 and (number * _FRACTIONS).is_integer()
