"""onnxexp-plugin-quantized: quantized models, for integer kernels."""

from __future__ import annotations

from onnxexp_quantized.plugin import Quantized

__all__ = ["Quantized", "plugin"]

plugin = Quantized()
