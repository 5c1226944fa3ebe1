"""Settings of one export through torch.onnx's names."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onnxexp import DEFAULT_OPSET


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one export.

    Attributes:
        opset: The target opset, for helpers without a parameter for it.
        autograd_inlining: Whether a Function without a symbolic is inlined; if not, it stays one node.
        python_ops: Symbolics registered for ``prim::PythonOp``, by their first opset.
        training: Whether the model is exported in training mode.
        operator_export_type: The name of the member of OperatorExportTypes.
        running: The registered symbolics that are being called, by function and operator.
        drops_unused_inputs: Whether a file lacks the inputs that no node uses, as torch's TorchScript exporter writes it.
    """

    opset: int = DEFAULT_OPSET
    autograd_inlining: bool = True
    python_ops: Mapping[int, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    training: bool = False
    operator_export_type: str = "ONNX"
    running: frozenset[tuple[Any, str]] = frozenset()
    drops_unused_inputs: bool = False

    def python_op(self, opset: int) -> Callable[..., Any] | None:
        """Find the symbolic for ``prim::PythonOp`` at an opset, or return None."""
        serving = [since for since in self.python_ops if since <= opset]
        return self.python_ops[max(serving)] if serving else None


_CURRENT: contextvars.ContextVar[Settings] = contextvars.ContextVar("onnxexp_torch_onnx", default=Settings())  # noqa: B039


def current() -> Settings:
    """Return the settings of the export in this thread.

    The settings are the defaults if the export was not started through torch.onnx's names.
    """
    return _CURRENT.get()


@contextlib.contextmanager
def settings(**changes: Any) -> Iterator[Settings]:
    """Change the settings that `current` returns inside the `with`."""
    made = dataclasses.replace(_CURRENT.get(), **changes)
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)
