"""The exceptions of onnxexp, with `OnnxExporterError` as the base of all."""

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


class OnnxExporterError(RuntimeError):
    """Base class of all deliberate exceptions of onnxexp."""


class OptionError(OnnxExporterError, ValueError):
    """An argument of `export` is malformed, contradicts another or cannot be honoured."""


class CaptureError(OnnxExporterError):
    """The model could not be captured, or a requested dynamic axis came out static."""


class LoweringError(OnnxExporterError):
    """An operator could not be expressed in ONNX.

    Attributes:
        lowered: The visited nodes, each with the plugin that lowers it ("" for none).
    """

    lowered: list[tuple[Any, str]]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lowered = []


class UnsupportedOperators(LoweringError):
    """Operators that no selected plugin lowers and torch does not decompose.

    Attributes:
        counts: The number of occurrences of each operator.
    """

    def __init__(self, message: str, counts: dict[str, int]) -> None:
        super().__init__(message)
        self.counts = counts


class OpsetError(LoweringError):
    """The target opset cannot express a call.

    Attributes:
        first_opset: The lowest opset that can express it, or None.
    """

    def __init__(self, message: str, first_opset: int | None = None) -> None:
        super().__init__(message)
        self.first_opset = first_opset


class PassError(OnnxExporterError):
    """A pass raised or left the model broken."""


class SerializeError(OnnxExporterError):
    """The model could not be written, and an existing file is unharmed."""


class VerificationError(OnnxExporterError, AssertionError):
    """The exported model and the original disagree.

    Attributes:
        report: The comparison of all outputs; None where they cannot be compared.
    """

    report: Any = None


class PluginError(OnnxExporterError):
    """A plugin is invalid."""


class PluginLoadError(PluginError):
    """A selected plugin is missing or cannot be loaded."""


class PluginConflict(PluginError):
    """Two plugins claim the same operator, and no setting decides between them."""


for _name in __all__:  # a traceback shows the public name, onnxexp.OptionError
    vars()[_name].__module__ = "onnxexp"


def summary(error: BaseException) -> str:
    """Return the class and the message of an error, whose `__str__` may raise, too."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as broken:  # noqa: BLE001 - the error may be that of a plugin
        return f"{type(error).__name__}, whose message raises {type(broken).__name__}"
