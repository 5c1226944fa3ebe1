"""Capture assignments to ``.data`` of parameters.

No tracer records them. From the assignment on, calls get the assigned tensor in the parameter's place.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
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

    def __contains__(self, parameter: torch.Tensor) -> bool:
        return id(parameter) in self._tensors

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
