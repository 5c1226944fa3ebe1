"""The part of the builder that operands and subgraphs use.

They cannot import the builder, since it imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from onnxexp.builder.tensor import Tensor, TensorOwner
from onnxexp.neutral_graph import Type

__all__ = ["GraphBuilder"]


class GraphBuilder(TensorOwner, Protocol):
    """The builder as operands and subgraphs see it."""

    opset: int

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def has_operator(self, domain: str, name: str) -> bool: ...

    def emit(
        self, domain: str, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int = 1
    ) -> tuple[Tensor, ...]: ...

    def cast(self, x: Any, dtype: torch.dtype) -> Tensor: ...

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> Tensor: ...

    def wrap_constant(self, tensor: torch.Tensor, name: str | None = None) -> Tensor: ...

    def input(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> Tensor: ...
