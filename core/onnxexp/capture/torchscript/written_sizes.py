"""``n += 2`` of a size: Python gives a new number, the tracer changes every other name of the old one too."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from onnxexp.capture.modes import replaced

__all__ = ["immutable_sizes", "writes_sizes"]

_tracer: Any = torch._C
_METHODS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "__iadd__": (operator.add, "aten::add_"),
    "__isub__": (operator.sub, "aten::sub_"),
    "__imul__": (operator.mul, "aten::mul_"),
    "__ifloordiv__": (operator.floordiv, "aten::floor_divide_"),
    "__itruediv__": (operator.truediv, "aten::div_"),
    "__imod__": (operator.mod, "aten::remainder_"),
}
"""Python's assignments, what they are of numbers, and how a trace writes them."""
_SIZE = "prim::NumToTensor"
"""What a trace makes of every size."""


def writes_sizes(graph: Any) -> bool:
    """Whether a trace has such assignments to sizes."""
    if not graph.findNode(_SIZE):
        return False
    return any(_is_number(node.inputsAt(0)) for _, kind in _METHODS.values() for node in graph.findAllNodes(kind))


def immutable_sizes() -> AbstractContextManager[None]:
    """Inside, they give a new number.

    Python looks such methods up in the class alone, and a class that changes loses what Python has remembered of all its
    methods: entering and leaving takes longer than the trace of a small model.
    """
    return replaced(
        (torch.Tensor, name, _unless_number(getattr(torch.Tensor, name), function)) for name, (function, _) in _METHODS.items()
    )


def _unless_number(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: torch.Tensor, other: Any) -> Any:
        number = _tracer._is_tracing() and not self.dim() and _is_number(_tracer._get_value_trace(self))
        return function(self, other) if number else original(self, other)

    return call


def _is_number(value: Any) -> bool:
    """Whether a 0-d tensor of a trace is a size, or computed from sizes alone."""
    if value.type().dim() or value.type().dtype() not in (torch.int64, torch.float32):
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
