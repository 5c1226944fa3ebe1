"""torch.onnx's names, working on onnxexp's engine: ``import onnxexp.torch_onnx`` where code says ``torch.onnx``.

What a torch.onnx extension imports is here under the same name: `export`, `register_custom_op_symbolic`, `symbolic_helper`,
`symbolic_opset9` …, `utils`, `operators`, `verification`, and torch 2.1's `dynamo_export` and its like. Beyond torch.onnx:
`registered` (what is registered, as a plugin for `onnxexp.export`) `call_symbolic` (for plugins that call such
symbolics) and `Extraction` (regions of a finished model as its functions).
"""

from __future__ import annotations

import sys
from typing import Any

from onnxexp.capture.torch_state import TrainingMode
from onnxexp.program.program import ONNXProgram
from onnxexp.torch_onnx import errors, operators, symbolic_helper, utils, verification
from onnxexp.torch_onnx.call_symbolic import call_symbolic
from onnxexp.torch_onnx.context import GraphContext, SymbolicContext
from onnxexp.torch_onnx.dynamo import (
    DiagnosticOptions,
    ExportOptions,
    ExportOutput,
    ExportOutputSerializer,
    OnnxRegistry,
    dynamo_export,
    enable_fake_mode,
)
from onnxexp.torch_onnx.enums import OperatorExportTypes, TensorProtoDataType
from onnxexp.torch_onnx.errors import CheckerError, OnnxExporterError, SymbolicValueError, UnsupportedOperatorError
from onnxexp.torch_onnx.exporting import export, export_to_pretty_string
from onnxexp.torch_onnx.function_extraction import Extraction
from onnxexp.torch_onnx.modes import disable_log, enable_log, is_in_onnx_export, select_model_mode_for_export, set_training
from onnxexp.torch_onnx.registry import register_custom_op_symbolic, registered, unregister_custom_op_symbolic
from onnxexp.torch_onnx.scalar_type import JitScalarType
from onnxexp.torch_onnx.settings import current
from onnxexp.torch_onnx.symbolic_opsets import opset_modules

__all__ = [
    "CheckerError",
    "DiagnosticOptions",
    "ExportOptions",
    "ExportOutput",
    "ExportOutputSerializer",
    "Extraction",
    "GraphContext",
    "JitScalarType",
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxRegistry",
    "OperatorExportTypes",
    "SymbolicContext",
    "SymbolicValueError",
    "TensorProtoDataType",
    "TrainingMode",
    "UnsupportedOperatorError",
    "call_symbolic",
    "current",
    "disable_log",
    "dynamo_export",
    "enable_fake_mode",
    "enable_log",
    "errors",
    "export",
    "export_to_pretty_string",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
    "registered",
    "select_model_mode_for_export",
    "set_training",
    "symbolic_helper",
    "unregister_custom_op_symbolic",
    "utils",
    "verification",
]

_OPSET_MODULES = opset_modules(__name__)
sys.modules.update({module.__name__: module for module in _OPSET_MODULES.values()})  # for `import ….symbolic_opset9`


def __getattr__(name: str) -> Any:  # type checkers do not see the modules of a loop
    if name not in _OPSET_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OPSET_MODULES[name]
