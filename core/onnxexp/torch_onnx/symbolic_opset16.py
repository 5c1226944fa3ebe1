"""torch.onnx's symbolics as look-ups: ``relu(g, x)`` is lowered by whoever lowers ``aten::relu`` in the export that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxexp.torch_onnx.lookups import symbolic

__all__: list[str] = []


def __getattr__(name: str) -> Callable[..., Any]:
    return symbolic(name)
