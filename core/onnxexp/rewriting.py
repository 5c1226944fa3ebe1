"""Tools for passes over the exported model: dtypes, names, tensors and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._builder.dtypes import from_onnx, of_python, to_onnx
    from onnxexp._builder.onnxscript_functions import definitions
    from onnxexp._builder.torch_tensor_data import TorchTensor
    from onnxexp._passes.rewriter import RewritePass, Rewriter, Rule, Unfit, constant_ints, dims
    from onnxexp._request.unique_names import UniqueNames, unused_name

__all__ = [
    "dims",
    "constant_ints",
    "Unfit",
    "Rule",
    "Rewriter",
    "RewritePass",
    "TorchTensor",
    "UniqueNames",
    "definitions",
    "from_onnx",
    "of_python",
    "to_onnx",
    "unused_name",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_builder.dtypes": "from_onnx of_python to_onnx",
        "_builder.onnxscript_functions": "definitions",
        "_builder.torch_tensor_data": "TorchTensor",
        "_passes.rewriter": "RewritePass Rewriter Rule Unfit constant_ints dims",
        "_request.unique_names": "UniqueNames unused_name",
    },
)
