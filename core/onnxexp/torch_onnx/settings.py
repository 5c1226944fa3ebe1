"""What an export through torch.onnx's names was asked for beyond `onnxexp.export`; each thread and each export has its own."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Settings", "current", "settings"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """
    Attributes:
        opset: The target opset, for helpers that are not given it.
        autograd_inlining: Is a Function that nobody has a symbolic for inlined? Else it stays one node.
        python_ops: Symbolics registered for ``prim::PythonOp``, by the opset from which they serve.
        training: Is the model exported in training mode?
        operator_export_type: The member of OperatorExportTypes, by name.
    """

    opset: int = 20
    autograd_inlining: bool = True
    python_ops: Mapping[int, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    training: bool = False
    operator_export_type: str = "ONNX"

    def python_op(self, opset: int) -> Callable[..., Any] | None:
        """The symbolic for ``prim::PythonOp`` that serves an opset."""
        serving = [since for since in self.python_ops if since <= opset]
        return self.python_ops[max(serving)] if serving else None


_CURRENT: contextvars.ContextVar[Settings] = contextvars.ContextVar("onnxexp.torch_onnx", default=Settings())  # noqa: B039


def current() -> Settings:
    """The settings of the export that runs in this thread; the defaults where it was not started through torch.onnx's names."""
    return _CURRENT.get()


@contextlib.contextmanager
def settings(**changes: Any) -> Iterator[Settings]:
    """Inside, `current` has these changes."""
    made = dataclasses.replace(_CURRENT.get(), **changes)
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)
