"""onnxexp-plugin-ort: ONNX Runtime's own operators, as a target."""

from __future__ import annotations

from onnxexp_ort.plugin import ContribOperators

__all__ = ["ContribOperators", "plugin"]

plugin = ContribOperators()
