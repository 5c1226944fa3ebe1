"""onnxexp-plugin-torchscript: the frontend for torch.jit.trace, torch.jit.script and scripted models."""

from __future__ import annotations

from onnxexp_torchscript.plugin import TorchScript

__all__ = ["TorchScript", "plugin"]

plugin = TorchScript()
