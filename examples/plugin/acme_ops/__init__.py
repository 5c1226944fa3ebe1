"""Operators for PyTorch, and how onnxexp lowers them to ONNX."""

from __future__ import annotations

from acme_ops.operators import gated, snake
from acme_ops.symbolics import plugin

__all__ = ["gated", "plugin", "snake"]
