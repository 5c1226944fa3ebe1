"""The installed plugins' symbolics, for tools that read them outside an export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxexp.plugins.loading import load
from onnxexp.request import config

__all__ = ["symbolics_for"]


def symbolics_for(operator: str, opset: int) -> list[Callable[..., Any]]:
    """List an operator's symbolics (``aten::add.Tensor``) at an opset in call order.

    The configuration selects the plugins, as for an export without ``plugins=``.

    Raises PluginLoadError and PluginConflict as `onnxexp.export` does.
    """
    candidates = load(config.load()).dispatcher.candidates(operator, opset)
    return [candidate.symbolic.function for candidate in candidates]
