"""Export PyTorch models to ONNX, with operators from plugins.

    program = onnxexp.export(model, (x,), "model.onnx", dynamic_shapes={"x": {0: "batch"}})

`onnxexp.errors` lists the exceptions.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from onnxexp import errors
from onnxexp.errors import *  # noqa: F403 - `__all__` has its names
from onnxexp.version import __version__

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder
    from onnxexp.builder.producer import Producer
    from onnxexp.builder.tensor import ComplexTensor, Tensor
    from onnxexp.capture.model_weights import meta_parameters
    from onnxexp.capture.torch_state import is_exporting as is_in_onnx_export
    from onnxexp.cli.dry_run import CheckReport, check
    from onnxexp.lowering.keep_torch_ops import OperatorExportTypes
    from onnxexp.neutral_graph import Graph, Node, ScalarType, TensorType, Value
    from onnxexp.pipeline import export
    from onnxexp.plugins.hookspecs import hookimpl
    from onnxexp.program.program import ONNXProgram
    from onnxexp.request.checkpoint import read_checkpoint
    from onnxexp.request.export_context import ExportContext
    from onnxexp.request.options import Options
    from onnxexp.request.training_mode import TrainingMode
    from onnxexp.symbolics.table import SymbolicTable
    from onnxexp.user_warnings import warn

__all__ = [
    "Builder",
    "CheckReport",
    "ComplexTensor",
    "ExportContext",
    "Graph",
    "Node",
    "ONNXProgram",
    "OperatorExportTypes",
    "Options",
    "Producer",
    "ScalarType",
    "SymbolicTable",
    "Tensor",
    "TensorType",
    "TrainingMode",
    "Value",
    "__version__",
    "check",
    "export",
    "hookimpl",
    "is_in_onnx_export",
    "meta_parameters",
    "read_checkpoint",
    "warn",
]
__all__ += errors.__all__

_HOMES = {
    "Builder": "builder.builder",
    **dict.fromkeys(("CheckReport", "check"), "cli.dry_run"),
    **dict.fromkeys(("ComplexTensor", "Tensor"), "builder.tensor"),
    "ExportContext": "request.export_context",
    **dict.fromkeys(("Graph", "Node", "ScalarType", "TensorType", "Value"), "neutral_graph"),
    "ONNXProgram": "program.program",
    "OperatorExportTypes": "lowering.keep_torch_ops",
    "Options": "request.options",
    "Producer": "builder.producer",
    "SymbolicTable": "symbolics.table",
    "TrainingMode": "request.training_mode",
    "export": "pipeline",
    "hookimpl": "plugins.hookspecs",
    "is_in_onnx_export": "capture.torch_state:is_exporting",
    "meta_parameters": "capture.model_weights",
    "read_checkpoint": "request.checkpoint",
    "warn": "user_warnings",
}
"""The module of each name that needs torch or pluggy (and its name there), imported at the first use of the name."""
_TORCH_ONNX_MOVED = (
    "torch.onnx's names are in a plugin, imported as onnxexp_torch_onnx; install it with: pip install onnxexp-plugin-torch-onnx"
)


def __getattr__(name: str) -> Any:
    if name == "torch_onnx":
        raise AttributeError(_TORCH_ONNX_MOVED)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _public(name)


@functools.cache
def _public(name: str) -> Any:
    module, _, renamed = _HOMES[name].partition(":")
    return vars(importlib.import_module(f"{__name__}.{module}"))[renamed or name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
