"""The errors of torch.onnx, in onnxexp's tree."""

from __future__ import annotations

from typing import Any

from onnxexp import OnnxExporterError, OptionError, SerializeError, UnsupportedOperators

__all__ = [
    "CheckerError",
    "InvalidExportOptionsError",
    "OnnxExporterError",
    "OnnxExporterWarning",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]

UnsupportedOperatorError = UnsupportedOperators
InvalidExportOptionsError = OptionError


class OnnxExporterWarning(UserWarning):
    """An export goes on, but not exactly as requested."""


class CheckerError(SerializeError):
    """onnx's checker rejects the model."""


class SymbolicValueError(OnnxExporterError, ValueError):
    """A symbolic cannot use a value.

    The message shows the value and the node that makes it.
    """

    def __init__(self, msg: str, value: Any) -> None:
        super().__init__(f"{msg}\n  the value: {str(value).strip()}")
        self.value = value
