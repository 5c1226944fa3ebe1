"""The decorators of ``torch.onnx._internal.registration``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onnxexp_torch_onnx.registry import register_custom_op_symbolic

F = TypeVar("F", bound=Callable[..., Any])


def onnx_symbolic(
    name: str, opset: int | Sequence[int], decorate: Sequence[Callable[[F], F]] | None = None, custom: bool = False
) -> Callable[[F], F]:
    """Register the decorated symbolic, as `register_custom_op_symbolic` does.

    Args:
        name: The operator, ``aten::relu``.
        opset: The first target opset, or several.
        decorate: Decorators for the registered function, the outermost last; the function itself stays as it is.
        custom: torch.onnx's mark of a user's symbolic. Here every registration is one.
    """

    def register(function: F) -> F:
        decorated = function
        for decorator in decorate or ():
            decorated = decorator(decorated)
        for each in [opset] if isinstance(opset, int) else opset:
            register_custom_op_symbolic(name, decorated, each)
        return function

    return register


def custom_onnx_symbolic(
    name: str, opset: int | Sequence[int], decorate: Sequence[Callable[[F], F]] | None = None
) -> Callable[[F], F]:
    """Register a user's symbolic, as `onnx_symbolic` does."""
    return onnx_symbolic(name, opset, decorate, custom=True)
