"""onnxexp-plugin-custom-cpp: custom operators, and models with them that run.

onnxexp_custom_cpp.register_op("custom_ops::foo_forward", onnx="custom_domain::Foo", attrs={"attr1": "f", "attr2": "i"})
"""

from __future__ import annotations

from onnxexp_custom_cpp.operators import Operator, OperatorTable
from onnxexp_custom_cpp.plugin import CustomCpp
from onnxexp_custom_cpp.registry import register_op, unregister_op

__all__ = ["CustomCpp", "Operator", "OperatorTable", "plugin", "register_op", "unregister_op"]

plugin = CustomCpp()
