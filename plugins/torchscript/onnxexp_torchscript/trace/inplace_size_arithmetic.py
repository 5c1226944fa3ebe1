"""In-place arithmetic on sizes: ``n += 2`` returns a new number, as in Python.

The tracer would change the old number, under all of its names.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from onnxexp.frontends import replace_attributes

_tracer: Any = torch._C
_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "__iadd__": operator.add,
    "__isub__": operator.sub,
    "__imul__": operator.mul,
    "__ifloordiv__": operator.floordiv,
    "__itruediv__": operator.truediv,
    "__imod__": operator.mod,
}
"""In-place operators, each with its operator on numbers."""
_SIZE = "prim::NumToTensor"
"""The operators that a trace applies to every size."""


def immutable_sizes() -> AbstractContextManager[None]:
    """Let in-place arithmetic on sizes return a new number."""
    return replace_attributes(
        (torch.Tensor, name, _unless_number(getattr(torch.Tensor, name), function)) for name, function in _METHODS.items()
    )


@functools.lru_cache(maxsize=128)
def _unless_number(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: torch.Tensor, other: Any) -> Any:
        return function(self, other) if _tracer._is_tracing() and is_size(self) else original(self, other)

    return call


def is_size(tensor: torch.Tensor) -> bool:
    """Return whether a traced tensor is a size, or computed from sizes alone."""
    if tensor.dim():
        return False
    value = _tracer._get_value_trace(tensor)
    if value.type().dim() or value.type().dtype() not in (torch.int64, torch.float32, torch.bool):
        return False
    todo, found = [value.node()], False
    for _ in range(64):
        if not todo:
            return found
        node = todo.pop()
        if node.kind() == _SIZE:
            found = True
        elif node.kind() != "prim::Constant":
            if node.kind() == "prim::Param" or not str(node.kind()).startswith("aten::"):
                return False
            todo += [node.inputsAt(index).node() for index in range(node.inputsSize())]
    return False
