"""onnxexp-plugin-ort: ONNX Runtime's own operators, as a target."""

from __future__ import annotations

from onnxexp_ort.plugin import Bfloat16OnCpu, ContribOperators, SkipNorms

__all__ = ["Bfloat16OnCpu", "ContribOperators", "SkipNorms", "plugin"]

plugin = ContribOperators()
