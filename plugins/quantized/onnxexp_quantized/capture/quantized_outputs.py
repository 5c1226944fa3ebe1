"""Quantized outputs: the graph returns integers, the parameters are metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp_quantized.capture.forward_hooks import Hook
from onnxexp_quantized.capture.integer_form import IntegerForm
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor


def integer_outputs(parameters: dict[int, str]) -> Hook:
    """Return a hook that converts the quantized tensors in a result to integers.

    The hook stores the parameters of those outputs in `parameters`, as JSON by the index of the output.
    """

    def forward_hook(_module: Any, _args: Any, result: Any) -> Any:
        leaves, structure = pytree.tree_flatten(result, is_leaf=lambda value: value is None)
        output = 0
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, QuantizedTensor):
                parameters[output] = _form(leaf).as_json()
                leaves[index] = leaf.integers
            if leaf is not None and not isinstance(leaf, str):  # these are constants of the signature
                output += 1
        return pytree.tree_unflatten(leaves, structure) if parameters else result

    return forward_hook


def _form(tensor: QuantizedTensor) -> IntegerForm:
    """Return the parameters of a tensor that is quantized with one scale."""
    if tensor.axis is not None:
        raise CaptureError("the model returns a tensor that is quantized per channel; to fix this, return it dequantized")
    return IntegerForm.of_stand_in(tensor, "")


class WriteParameters(ir.passes.InPlacePass):
    """Store the parameters of quantized inputs and outputs in the model's metadata."""

    def __init__(self, inputs: Mapping[int, Any], outputs: Mapping[int, str]) -> None:
        self._inputs = inputs
        self._outputs = outputs

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Add an entry ``quantized.NAME`` for each quantized input and output."""
        parameters = {form.name: form.as_json() for form in self._inputs.values() if isinstance(form, IntegerForm)}
        parameters |= {str(model.graph.outputs[index].name): text for index, text in self._outputs.items()}
        model.metadata_props.update({f"quantized.{name}": text for name, text in parameters.items()})
        return ir.passes.PassResult(model, modified=bool(parameters))
