"""Run a model in ONNX's reference evaluator.

The evaluator is slow, and independent of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx.reference import ReferenceEvaluator

from onnxexp._builder.dtypes import torch_dtype
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import OnnxExporterError
from onnxexp._serialize import to_proto


class ReferenceSession:
    """A model in the reference evaluator.

    Raises OnnxExporterError where the evaluator does not take the model.
    """

    def __init__(self, model: ir.Model) -> None:
        try:
            self._evaluator = ReferenceEvaluator(to_proto(model))
        except Exception as error:  # the evaluator's errors have no base of their own
            raise OnnxExporterError(
                f"ONNX's reference evaluator does not take this model: {error}; to fix this, use backend='onnxruntime'"
            ) from error

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model on tensors and numbers by input, and return its outputs in order.

        Raises OnnxExporterError where the evaluator fails.
        """
        try:
            results = self._evaluator.run(None, {name: _to_numpy(feed) for name, feed in feeds.items()})
        except Exception as error:  # as above
            raise OnnxExporterError(
                f"ONNX's reference evaluator failed: {type(error).__name__}: {error}; to fix this, use backend='onnxruntime'"
            ) from error
        return [to_torch(result) for result in results]


def _to_numpy(feed: Any) -> Any:
    if isinstance(feed, (list, tuple)):
        return [_to_numpy(element) for element in feed]
    tensor = feed if isinstance(feed, torch.Tensor) else torch.tensor(feed)
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return TorchTensor(tensor.detach().cpu().contiguous()).numpy()


def to_torch(result: Any) -> Any:
    """Convert a numpy array, also of ml_dtypes, to a tensor.

    A list becomes a list of tensors, and None stays None.
    """
    if result is None or isinstance(result, list):
        return None if result is None else [to_torch(element) for element in result]
    array = np.asarray(result)
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return torch.from_numpy(np.array(array))
    bits = torch.from_numpy(np.array(array).view(f"u{array.dtype.itemsize}"))
    return bits.view(torch_dtype(ir.tensor(array).dtype))  # bfloat16 and float8 of ml_dtypes
