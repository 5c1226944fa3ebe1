"""onnxexp-plugin-torchscript: trace a model, script it, or take a ScriptModule."""

from __future__ import annotations

import torch

try:
    import torch.jit
except ImportError as error:  # a torch to come may leave it out
    text = f"torch {torch.__version__} has no TorchScript (torch.jit), so no model can be traced or scripted"
    raise ImportError(text) from error

from onnxexp_torchscript.plugin import TorchScript

__all__ = ["TorchScript", "plugin"]

plugin = TorchScript()
