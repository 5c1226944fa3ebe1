"""Replace functions of torch while torch.export captures a model for onnxexp."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp.capture.torch_state import is_exporting

__all__ = ["in_captures"]


def in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Return `replacement`, called with `original` first, in captures of torch.export."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        inside = torch.compiler.is_exporting() and is_exporting()
        return replacement(original, *args, **options) if inside else original(*args, **options)

    return call
