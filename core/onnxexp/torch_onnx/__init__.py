"""torch.onnx's names, working on onnxexp's engine: ``import onnxexp.torch_onnx`` where code says ``torch.onnx``."""

from __future__ import annotations

from onnxexp.torch_onnx.calling import call_symbolic
from onnxexp.torch_onnx.exporting import export, export_to_pretty_string
from onnxexp.torch_onnx.registry import register_custom_op_symbolic, registered, unregister_custom_op_symbolic
from onnxexp.torch_onnx.settings import current

__all__ = ["call_symbolic", "current", "export", "export_to_pretty_string", "register_custom_op_symbolic", "registered", "unregister_custom_op_symbolic"]
