"""Writes that torch's tracer drops.

torch's alias analysis takes the result of ``torch.atleast_3d(x)`` for a new tensor, so that torch removes a write into it from
the trace as dead code. ``resize_`` is not recorded at all: its result is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp.functionalize.mutation import UNDECLARED

__all__ = ["drop_kept_writes", "keep_writes", "resizing_refused"]

_CURE = "take the elements with flatten()[:n].view(...), or pad() a new tensor"


def keep_writes(graph: Any) -> int:
    """Make each write that torch would remove an output of the graph.

    Returns their number.
    """
    views: set[int] = set()
    written = []
    for node in graph.nodes():
        if node.kind() not in UNDECLARED and not (node.inputsSize() and node.inputsAt(0).unique() in views):
            continue
        views.update(output.unique() for output in node.outputs())
        if node.kind().endswith("_") and node.outputsSize() == 1:
            written.append(node.output())
    for value in written:
        graph.registerOutput(value)
    return len(written)


def drop_kept_writes(graph: Any, count: int) -> None:
    """Remove the outputs that `keep_writes` has added, which come first."""
    for _ in range(count):
        graph.eraseOutput(0)


def resizing_refused() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of methods that resize.

    They raise CaptureError for tensors with elements.
    """
    for name in ("resize_", "resize_as_"):
        yield torch.Tensor, name, _unless_empty(name, getattr(torch.Tensor, name))


def _unless_empty(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        if torch._C._is_tracing() and self.numel():
            raise CaptureError(f"torch.jit.trace does not record {name}; cure: {_CURE}")
        return original(self, *args, **options)

    return call
