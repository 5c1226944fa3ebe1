"""Export PyTorch models to ONNX, with operators from plugins.

    program = onnxexp.export(model, (x,), "model.onnx", dynamic_shapes={"x": {0: "batch"}})

For those who extend it: `onnxexp.graph`, `onnxexp.frontends`, `onnxexp.torch_ops`, `onnxexp.rewriting`, `onnxexp.checking`,
`onnxexp.commands` and `onnxexp.testing`. Every other module is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp import _errors
from onnxexp._errors import *  # noqa: F403 - `__all__` has its names
from onnxexp._lazy_names import lazy_names
from onnxexp._version import DEFAULT_OPSET, MAX_OPSET, MIN_OPSET, __version__

if TYPE_CHECKING:
    from onnxexp._builder.builder import Builder
    from onnxexp._builder.producer import Producer
    from onnxexp._builder.tensor import ComplexTensor, Tensor
    from onnxexp._capture.model_weights import meta_parameters
    from onnxexp._capture.torch_state import is_exporting as is_in_onnx_export
    from onnxexp._check import CheckReport, check
    from onnxexp._lowering.keep_torch_ops import OperatorExportTypes
    from onnxexp._pipeline import export
    from onnxexp._plugins.hookspecs import hookimpl
    from onnxexp._program.program import ONNXProgram
    from onnxexp._request.checkpoint import read_checkpoint
    from onnxexp._request.export_context import ExportContext
    from onnxexp._request.options import Options
    from onnxexp._request.training_mode import TrainingMode
    from onnxexp._symbolics.table import SymbolicTable
    from onnxexp._user_warnings import warn

__all__ = [
    "DEFAULT_OPSET",
    "MAX_OPSET",
    "MIN_OPSET",
    "Builder",
    "CheckReport",
    "ComplexTensor",
    "ExportContext",
    "ONNXProgram",
    "OperatorExportTypes",
    "Options",
    "Producer",
    "SymbolicTable",
    "Tensor",
    "TrainingMode",
    "__version__",
    "check",
    "export",
    "hookimpl",
    "is_in_onnx_export",
    "meta_parameters",
    "read_checkpoint",
    "warn",
]
__all__ += _errors.__all__

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_builder.builder": "Builder",
        "_builder.producer": "Producer",
        "_builder.tensor": "ComplexTensor Tensor",
        "_capture.model_weights": "meta_parameters",
        "_capture.torch_state": "is_in_onnx_export=is_exporting",
        "_check": "CheckReport check",
        "_lowering.keep_torch_ops": "OperatorExportTypes",
        "_pipeline": "export",
        "_plugins.hookspecs": "hookimpl",
        "_program.program": "ONNXProgram",
        "_request.checkpoint": "read_checkpoint",
        "_request.export_context": "ExportContext",
        "_request.options": "Options",
        "_request.training_mode": "TrainingMode",
        "_symbolics.table": "SymbolicTable",
        "_user_warnings": "warn",
    },
    submodules="checking commands frontends graph rewriting testing torch_ops",
)
