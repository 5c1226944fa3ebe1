"""onnxexp-plugin-torchscript: trace a model, script it, or take a ScriptModule."""

from __future__ import annotations

from onnxexp.frontends import NO_TORCHSCRIPT

if NO_TORCHSCRIPT:
    raise ImportError(NO_TORCHSCRIPT)

from onnxexp_torchscript.plugin import TorchScript

__all__ = ["TorchScript", "plugin"]

plugin = TorchScript()
