"""Writes that torch's tracer drops.

torch's alias analysis takes the result of ``torch.atleast_3d(x)`` for a new tensor. If the model writes to one of the two and
returns the other, torch removes the write from the trace as dead code. ``resize_`` is not recorded at all: its result is a
constant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp.functionalize.mutation import UNDECLARED
from onnxexp_torchscript.jit_nodes import outputs

__all__ = ["drop_kept_writes", "keep_writes", "resizing_refused"]

_CURE = "take the elements with flatten()[:n].view(...), or pad() a new tensor"


def keep_writes(graph: Any) -> int:
    """Make each write that torch may remove an output of the graph.

    Returns their number. Where torch knows all aliases, it removes dead writes only.
    """
    nodes = list(graph.nodes())
    if not any(node.kind() in UNDECLARED for node in nodes):
        return 0
    written = [output for node in nodes if "!" in node.schema() for output in outputs(node)]
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
    @functools.wraps(original)
    def call(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        if torch._C._is_tracing() and self.numel():
            raise CaptureError(f"torch.jit.trace does not record {name}; cure: {_CURE}")
        return original(self, *args, **options)

    return call
