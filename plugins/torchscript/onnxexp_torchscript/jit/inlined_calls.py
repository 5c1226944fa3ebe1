"""Inline the calls in a graph of TorchScript."""

from __future__ import annotations

from typing import Any

import torch

_CALLS = ("prim::CallFunction", "prim::CallMethod")


def inline(graph: Any) -> None:
    """Inline all calls of functions and methods.

    torch inlines a function as it was at its first run. A run without optimizations leaves calls in it.
    """
    before: list[str] | None = None
    while (calls := _calls(graph)) != before:
        torch._C._jit_pass_inline(graph)
        before = calls


def _calls(graph: Any) -> list[str]:
    """List the calls as text, which has the numbers of their values."""
    return [str(node) for kind in _CALLS for node in graph.findAllNodes(kind, recurse=True)]
