"""The symbolics of the installed plugins, for tools that look at them outside an export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxexp.plugins.loading import load
from onnxexp.request import config

__all__ = ["symbolics_for"]


def symbolics_for(operator: str, opset: int) -> list[Callable[..., Any]]:
    """Return the symbolics that lower an operator (``aten::add.Tensor``) at an opset, the first choice first.

    The configuration selects the plugins, as for an export without ``plugins=``.

    Raises PluginLoadError and PluginConflict as `onnxexp.export` does.
    """
    candidates = load(config.load()).dispatcher.candidates(operator, opset)
    return [candidate.symbolic.function for candidate in candidates]
