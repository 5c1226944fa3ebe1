"""The plugin's hooks."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from onnxexp import ExportContext, hookimpl
from onnxexp_quantized.capture.model_patches import is_quantized, stand_ins
from onnxexp_quantized.lowering.tables import quantized_decomposed

__all__ = ["Quantized"]

_PATCHES = "quantized.patches"
"""Key in `ExportContext.plugin_data`: the stack of the capture's patches."""


class Quantized:
    """The plugin: captures and lowers quantized models."""

    symbolics = (quantized_decomposed,)

    @hookimpl
    def capture_context(self, context: ExportContext) -> AbstractContextManager[Any]:
        """Undo at the end of the capture what `capture` replaces."""
        context.plugin_data[_PATCHES] = stack = contextlib.ExitStack()
        return stack

    @hookimpl(tryfirst=True)
    def capture(self, model: Any, context: ExportContext) -> None:
        """Put stand-ins into a quantized model; other frontends capture it."""
        stack: contextlib.ExitStack = context.plugin_data[_PATCHES]
        if is_quantized(model):
            stack.enter_context(stand_ins(model))
