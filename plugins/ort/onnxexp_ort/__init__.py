"""onnxexp-plugin-ort: ONNX Runtime's own operators, as a target."""

from __future__ import annotations

from onnxexp_ort.plugin import ContribOperators, SkipNorms

__all__ = ["ContribOperators", "SkipNorms", "plugin"]

plugin = ContribOperators()
