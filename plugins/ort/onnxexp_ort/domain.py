"""The domain of ONNX Runtime's own operators."""

from __future__ import annotations

__all__ = ["DOMAIN"]

DOMAIN = "com.microsoft"
