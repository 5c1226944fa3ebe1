"""The part of the builder that tensors, operands and subgraphs use.

They cannot import the builder, since the builder imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import onnx_ir as ir
import torch

from onnxexp.graph import Type

__all__ = ["GraphBuilder", "TensorOwner"]

T_co = TypeVar("T_co", covariant=True)


class TensorOwner(Protocol):
    """The builder as a Tensor sees it. The arguments are Tensors; their class is defined above this module."""

    def infer(self, tensor: Any, /) -> None: ...

    def materialize(self, tensor: Any, /) -> ir.Value: ...

    def call(self, domain: str, name: str, /, *args: Any, **kwargs: Any) -> Any: ...


class GraphBuilder(TensorOwner, Protocol[T_co]):
    """The builder as operands and subgraphs see it; `T_co` is the class of its tensors."""

    opset: int

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def has_operator(self, domain: str, name: str) -> bool: ...

    def emit(
        self, domain: str, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int = 1
    ) -> tuple[T_co, ...]: ...

    def cast(self, x: Any, dtype: torch.dtype) -> T_co: ...

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> T_co: ...

    def wrap_constant(self, tensor: torch.Tensor, name: str | None = None) -> T_co: ...

    def input(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> T_co: ...
