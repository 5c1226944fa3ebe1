"""torch.onnx's names on onnxexp's engine.

Import `onnxexp_torch_onnx` in place of ``torch.onnx``.

The names that extensions of torch.onnx import are here: `export`, `register_custom_op_symbolic`, `symbolic_helper`,
`symbolic_opset9` …, `utils`, `operators`, `verification`, and torch 2.1's `dynamo_export`. Three names are not in torch.onnx:
`registered` (the registrations as a plugin for `onnxexp.export`), `call_symbolic` (for plugins that call such symbolics) and
`FunctionExtractor` (regions of a finished model as functions).

`install` puts all of that in torch.onnx's place, for code that is not changed.

The entry point `plugin` lowers the operators of ``torch.onnx.ops``, and names registered symbolics that an export omits.
"""

from __future__ import annotations

import sys
from typing import Any

from onnxexp import TrainingMode, is_in_onnx_export
from onnxexp import __version__ as producer_version
from onnxexp_torch_onnx import errors, operators, ops, symbolic_helper, symbolic_registry, testing, utils, verification
from onnxexp_torch_onnx.call_symbolic import call_symbolic
from onnxexp_torch_onnx.context import GraphContext, SymbolicContext
from onnxexp_torch_onnx.dynamo import (
    DiagnosticOptions,
    ExportOptions,
    ExportOutput,
    ExportOutputSerializer,
    OnnxRegistry,
    dynamo_export,
    enable_fake_mode,
)
from onnxexp_torch_onnx.entry_point import plugin
from onnxexp_torch_onnx.enums import ExportTypes, OperatorExportTypes, TensorProtoDataType
from onnxexp_torch_onnx.errors import (
    CheckerError,
    InvalidExportOptionsError,
    OnnxExporterError,
    OnnxExporterWarning,
    SymbolicValueError,
    UnsupportedOperatorError,
)
from onnxexp_torch_onnx.export_state import (
    disable_log,
    enable_log,
    is_onnx_log_enabled,
    log,
    select_model_mode_for_export,
    set_log_stream,
    set_training,
)
from onnxexp_torch_onnx.exportable_module import ExportableModule
from onnxexp_torch_onnx.exporting import export, export_to_pretty_string
from onnxexp_torch_onnx.function_extraction import FunctionExtractor
from onnxexp_torch_onnx.installation import install, installed, uninstall
from onnxexp_torch_onnx.onnx_program import ONNXProgram
from onnxexp_torch_onnx.registry import register_custom_op_symbolic, registered, unregister_custom_op_symbolic
from onnxexp_torch_onnx.scalar_type import JitScalarType
from onnxexp_torch_onnx.settings import current
from onnxexp_torch_onnx.symbolic_opsets import OPSET_MODULES
from onnxexp_torch_onnx.utils import is_onnxrt_backend_supported, unconvertible_ops

__all__ = [
    "CheckerError",
    "DiagnosticOptions",
    "ExportOptions",
    "ExportOutput",
    "ExportOutputSerializer",
    "ExportTypes",
    "ExportableModule",
    "FunctionExtractor",
    "GraphContext",
    "InvalidExportOptionsError",
    "JitScalarType",
    "ONNXProgram",
    "ONNXProgramSerializer",
    "OnnxExporterError",
    "OnnxExporterWarning",
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
    "install",
    "installed",
    "is_in_onnx_export",
    "is_onnx_log_enabled",
    "is_onnxrt_backend_supported",
    "log",
    "operators",
    "ops",
    "plugin",
    "producer_name",
    "producer_version",
    "register_custom_op_symbolic",
    "registered",
    "select_model_mode_for_export",
    "set_log_stream",
    "set_training",
    "symbolic_helper",
    "symbolic_registry",
    "testing",
    "unconvertible_ops",
    "uninstall",
    "unregister_custom_op_symbolic",
    "utils",
    "verification",
]

ONNXProgramSerializer = ExportOutputSerializer
producer_name = "onnxexp"
sys.modules.update({module.__name__: module for module in OPSET_MODULES.values()})  # for `import ….symbolic_opset9`


def __getattr__(name: str) -> Any:  # type checkers do not see the modules of a loop
    if name == "InputObserver":  # torch's own, in 2.13 and later: it uses the methods of `ONNXProgram`
        return vars(sys.modules["torch"].onnx)[name]
    if name not in OPSET_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return OPSET_MODULES[name]
