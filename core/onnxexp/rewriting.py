"""Tools for passes over the exported model: dtypes, names, tensors and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._builder.dtypes import dtype_of_number, onnx_dtype, torch_dtype
    from onnxexp._builder.onnxscript_functions import onnxscript_functions
    from onnxexp._builder.torch_tensor_data import TorchTensor
    from onnxexp._passes.rewriter import RewritePass, Rewriter
    from onnxexp._request.unique_names import UniqueNames

__all__ = [
    "Rewriter",
    "RewritePass",
    "TorchTensor",
    "UniqueNames",
    "onnxscript_functions",
    "torch_dtype",
    "dtype_of_number",
    "onnx_dtype",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_builder.dtypes": "torch_dtype dtype_of_number onnx_dtype",
        "_builder.onnxscript_functions": "onnxscript_functions",
        "_builder.torch_tensor_data": "TorchTensor",
        "_passes.rewriter": "RewritePass Rewriter",
        "_request.unique_names": "UniqueNames",
    },
)
