"""Quantized outputs: the integers, with their parameters as metadata."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

__all__ = ["OutputParameters", "integer_outputs"]


@contextlib.contextmanager
def integer_outputs(model: torch.nn.Module, parameters: dict[int, str]) -> Iterator[None]:
    """Return integers where a model returns quantized tensors.

    `parameters` gets the parameters of those outputs as JSON, by their places.
    """

    def forward_hook(_module: Any, _args: Any, result: Any) -> Any:
        leaves, structure = pytree.tree_flatten(result, is_leaf=lambda each: each is None)
        place = 0
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, QuantizedTensor):
                parameters[place] = _as_json(leaf)
                leaves[index] = leaf.integers
            place += leaf is not None
        return pytree.tree_unflatten(leaves, structure) if parameters else result

    handle = model.register_forward_hook(forward_hook)
    try:
        yield
    finally:
        handle.remove()


def _as_json(tensor: QuantizedTensor) -> str:
    if tensor.axis is not None:
        raise CaptureError("the model returns a tensor that is quantized per channel; cure: return it dequantized")
    scale, zero_point = tensor.numbers()
    return json.dumps({"scale": scale, "zero_point": zero_point, "dtype": str(tensor.dtype).removeprefix("torch.")})


class OutputParameters(ir.passes.InPlacePass):
    """Store the parameters of quantized outputs in the model's metadata."""

    def __init__(self, parameters: dict[int, str]) -> None:
        self._parameters = parameters

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Add an entry ``quantized.NAME`` for each quantized output."""
        for place, parameters in self._parameters.items():
            model.metadata_props[f"quantized.{model.graph.outputs[place].name}"] = parameters
        return ir.passes.PassResult(model, modified=bool(self._parameters))
