"""Run models with custom operators in ONNX Runtime.

session = onnxexp_custom_cpp.runtime.session("model.onnx", libraries=["libfoo.so"])
session.run(None, {"x": x})
"""

from __future__ import annotations

from onnxexp_custom_cpp.runtime.errors import BridgeError
from onnxexp_custom_cpp.runtime.session import prepare, session

__all__ = ["BridgeError", "prepare", "session"]
