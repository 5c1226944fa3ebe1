"""onnxexp-plugin-torchscript: trace a model, script it, or take a ScriptModule."""

from __future__ import annotations

from onnxexp_torchscript.plugin import TorchScript

__all__ = ["TorchScript", "plugin"]

plugin = TorchScript()
