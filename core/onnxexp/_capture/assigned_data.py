"""Capture assignments to ``.data`` of parameters.

No tracer records them. From the assignment on, calls get the assigned tensor in the parameter's place.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxexp._capture.source_lines import user_line_above
from onnxexp._capture.torch_state import assigned_data_lines
from onnxexp._source_location import SourceLocation


class AssignedData:
    """What one run of a forward assigns to ``.data``."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[Any, Any]] = {}  # with the parameter, whose id no other tensor gets then

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def assign(self, parameter: torch.Tensor, value: torch.Tensor) -> None:
        """Replace a parameter from now on.

        The parameter's own data ends that.
        """
        value = self.replaced(value)
        self._tensors.pop(id(parameter), None)
        if not _is_same(parameter, value):
            self._tensors[id(parameter)] = parameter, value
            assigned_data_lines().add(SourceLocation.read(*user_line_above(sys._getframe())))

    def replaced(self, values: Any) -> Any:
        """Replace the parameters among the leaves of a pytree."""
        if not self._tensors:
            return values
        return pytree.tree_map_only(torch.Tensor, lambda each: self._tensors.get(id(each), (each, each))[1], values)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same elements of the same memory."""
    tracer: Any = torch._C
    state = torch._C._get_tracing_state()
    tracer._set_tracing_state(None)  # which would record the sizes
    try:
        return bool(tracer._is_alias_of(one, other)) and _layout(one) == _layout(other)
    finally:
        tracer._set_tracing_state(state)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


class FirstUses(TorchFunctionMode):
    """Find parameters that a run reads first, and then gives other ``.data``.

    The next run reads that.
    """

    def __init__(self) -> None:
        super().__init__()
        self._read_first: dict[int, tuple[torch.Tensor, bool]] = {}  # with the parameter, as in AssignedData
        self._before: dict[int, torch.Tensor] = {}
        self._changed: dict[int, bool] = {}
        self._set_data = torch.Tensor.data.__set__  # type: ignore[attr-defined]  # a property in C++, or ours

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func == self._set_data:
            parameter, value = args
            original = self._before.setdefault(id(parameter), parameter.detach())
            self._read_first.setdefault(id(parameter), (parameter, False))
            self._changed[id(parameter)] = not _is_same(original, value)
        else:
            for leaf in pytree.tree_leaves((args, kwargs)):
                if isinstance(leaf, torch.nn.Parameter):
                    self._read_first.setdefault(id(leaf), (leaf, True))
        return func(*args, **(kwargs or {}))

    def keeps_data(self) -> bool:
        """Return whether there is such a parameter."""
        return any(self._read_first[key][1] for key, changed in self._changed.items() if changed)
