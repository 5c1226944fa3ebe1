"""onnxexp turns PyTorch models into ONNX; the operators come from plugins.

    program = onnxexp.export(model, (x,), "model.onnx", dynamic_shapes={"x": {0: "batch"}})

The errors form one tree, see `onnxexp.errors`.
"""

from __future__ import annotations

from onnxexp.builder import Builder
from onnxexp.capture.modes import TrainingMode
from onnxexp.capture.modes import is_exporting as is_in_onnx_export
from onnxexp.errors import (
    CaptureError,
    LoweringError,
    OnnxExporterError,
    OpsetError,
    OptionError,
    PassError,
    PluginConflict,
    PluginError,
    PluginLoadError,
    SerializeError,
    UnsupportedOperators,
    VerificationError,
)
from onnxexp.export import export
from onnxexp.graph import TensorType
from onnxexp.program import ONNXProgram
from onnxexp.symbolics import SymbolicTable
from onnxexp.values import Tensor
from onnxexp.version import __version__

__all__ = [
    "Builder",
    "CaptureError",
    "LoweringError",
    "ONNXProgram",
    "OnnxExporterError",
    "OpsetError",
    "OptionError",
    "PassError",
    "PluginConflict",
    "PluginError",
    "PluginLoadError",
    "SerializeError",
    "SymbolicTable",
    "Tensor",
    "TensorType",
    "TrainingMode",
    "UnsupportedOperators",
    "VerificationError",
    "__version__",
    "export",
    "is_in_onnx_export",
]
