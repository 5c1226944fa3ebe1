"""Prepare a model for ONNX Runtime, by the plugins' hooks `prepare_session`."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxexp.errors import OnnxExporterError, PluginError
from onnxexp.plugins.loading import Plugins

__all__ = ["prepare_session"]


def prepare_session(plugins: Plugins, model: ir.Model, options: Any) -> ir.Model:
    """Return the model that ONNX Runtime loads. Raises PluginError."""
    for implementation in plugins.implementations("prepare_session"):
        try:
            changed = implementation(model=model, options=options)
        except OnnxExporterError:
            raise
        except Exception as error:  # a hook may raise anything: the error names the plugin
            raise PluginError(f"{implementation} failed: {type(error).__name__}: {error}") from error
        model = model if changed is None else changed
    return model
