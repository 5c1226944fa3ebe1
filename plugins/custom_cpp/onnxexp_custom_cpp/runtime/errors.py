"""The exception of the running side."""

from __future__ import annotations

from onnxexp import OnnxExporterError


class BridgeError(OnnxExporterError):
    """A custom operator of a model cannot be run."""
