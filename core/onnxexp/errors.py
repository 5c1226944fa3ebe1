"""The errors of onnxexp, as one tree.

OnnxExporterError
 ├─ OptionError               an argument of `export` that cannot be honoured (also a ValueError)
 ├─ CaptureError              no strategy could capture the model: each one, and why it failed
 ├─ LoweringError             an operator could not be expressed in ONNX
 │   ├─ UnsupportedOperators  all operators that no plugin lowers, counted
 │   └─ OpsetError            the target opset cannot express it; `first_opset` can (None: no opset can)
 ├─ PassError                 a pass failed
 ├─ SerializeError            the file could not be written; what was there before is unharmed
 ├─ VerificationError         the exported model disagrees with the original
 └─ PluginError
     ├─ PluginLoadError       a selected plugin is missing or does not load
     └─ PluginConflict        two plugins claim one operator
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CaptureError",
    "LoweringError",
    "OnnxExporterError",
    "OpsetError",
    "OptionError",
    "PassError",
    "PluginConflict",
    "PluginError",
    "PluginLoadError",
    "SerializeError",
    "UnsupportedOperators",
    "VerificationError",
]


class OnnxExporterError(Exception):
    """The root: whatever onnxexp raises on purpose is one of these."""


class OptionError(OnnxExporterError, ValueError):
    """An argument of `export` is malformed, contradicts another or cannot be honoured."""


class CaptureError(OnnxExporterError):
    """The model could not be captured, or the captured program is not as requested."""


class LoweringError(OnnxExporterError):
    """An operator could not be expressed in ONNX.

    `lowered` lists the nodes that were reached, each with the name of its lowering ("" for none).
    """

    lowered: list[tuple[Any, str]]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lowered = []


class UnsupportedOperators(LoweringError):
    """Operators that no plugin lowers and torch does not decompose; `counts` counts each."""

    def __init__(self, message: str, counts: dict[str, int]) -> None:
        super().__init__(message)
        self.counts = counts


class OpsetError(LoweringError):
    """The target opset cannot express an operator.

    `first_opset` is the lowest opset that can, or None.
    """

    def __init__(self, message: str, first_opset: int | None = None) -> None:
        super().__init__(message)
        self.first_opset = first_opset


class PassError(OnnxExporterError):
    """A pass raised or left the model broken."""


class SerializeError(OnnxExporterError):
    """The model could not be written."""


class VerificationError(OnnxExporterError):
    """The exported model and the original disagree."""


class PluginError(OnnxExporterError):
    """Something is wrong with a plugin."""


class PluginLoadError(PluginError):
    """A selected plugin is missing or cannot be loaded."""


class PluginConflict(PluginError):
    """Two plugins claim the same operator, and no setting prefers one of them."""
