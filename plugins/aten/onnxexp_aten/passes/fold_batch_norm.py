"""Fold an inference BatchNormalization into the convolution before it."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import onnx_ir as ir
import torch

from onnxexp import Options
from onnxexp.rewriting import TorchTensor, UniqueNames

_CHANNEL = MappingProxyType({"Conv": 0, "ConvTranspose": 1})
"""The axis of the weight that is the output channels."""
_PIECE = 1 << 20
"""Bytes of the weight that are scaled at once."""


class FoldBatchNorm(ir.passes.InPlacePass):
    """Fold BatchNormalization into the Conv before it, as a pass.

    Without ``do_constant_folding`` it does nothing. The scaled weights are computed while they are written, one at a time, so
    that no second copy of them is in memory.
    """

    last = True

    def __init__(self, options: Options) -> None:
        self._fold = options.fold

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        norms = [node for node in model.graph if self._fold and node.op_type == "BatchNormalization"]
        folded = [_fold(model.graph, node) for node in norms]
        return ir.passes.PassResult(model, any(folded))


def _fold(graph: ir.Graph, norm: ir.Node) -> bool:
    conv = norm.inputs[0].producer() if norm.inputs[0] is not None else None
    if conv is None or conv.op_type not in _CHANNEL or len(norm.outputs) != 1 or len(conv.outputs[0].uses()) != 1:
        return False
    if conv.op_type == "ConvTranspose" and conv.attributes.get_int("group", 1) != 1:
        return False
    if conv.outputs[0].is_graph_output():
        return False
    weight, bias = _tensor(conv.inputs[1]), _tensor(conv.inputs[2]) if len(conv.inputs) > 2 else None
    parameters = [_tensor(value) for value in norm.inputs[1:]]
    if weight is None or None in parameters or (bias is None and len(conv.inputs) > 2):
        return False
    gamma, beta, mean, variance = (parameter.double() for parameter in parameters if parameter is not None)
    scale = gamma / torch.sqrt(variance + norm.attributes.get_float("epsilon", 1e-5))
    shift = beta - mean * scale if bias is None else beta + (bias.double() - mean) * scale
    assert conv.inputs[1] is not None and norm.inputs[2] is not None
    names = UniqueNames(graph.initializers)  # equal biases share one initializer, so that a name may be taken
    kernel, offset = (names.unique(f"{value.name}_folded") for value in (conv.inputs[1], norm.inputs[2]))
    scaled = _scaled(kernel, weight, scale.to(weight.dtype), _CHANNEL[conv.op_type])
    shifted = _initializer(offset, TorchTensor(shift.to(weight.dtype)))
    _replace(graph, norm, conv, scaled, shifted)
    return True


def _tensor(value: ir.Value | None) -> torch.Tensor | None:
    if value is None or not value.is_initializer() or value.is_graph_input() or not isinstance(value.const_value, TorchTensor):
        return None
    return value.const_value.torch


def _scaled(name: str, weight: torch.Tensor, scale: torch.Tensor, axis: int) -> ir.Value:
    return _initializer(name, _ScaledTensor(weight, scale.reshape([-1 if index == axis else 1 for index in range(weight.dim())])))


class _ScaledTensor(TorchTensor):
    """A weight times a scale that broadcasts to it, computed at each read."""

    __slots__ = ("_scale",)

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__(weight)
        self._scale = scale

    @property
    def raw(self) -> torch.Tensor:  # type: ignore[override] # onnx-ir annotates its property as an attribute
        return super().raw * self._scale

    def pieces(self) -> Iterator[torch.Tensor]:
        weight = super().raw
        rows = max(1, _PIECE // max(1, weight[:1].nbytes))
        for first in range(0, len(weight), rows):
            scale = self._scale[first : first + rows] if len(self._scale) > 1 else self._scale
            yield (weight[first : first + rows] * scale).reshape(-1)


def _initializer(name: str, tensor: ir.TensorProtocol) -> ir.Value:
    tensor.name = name
    return ir.Value(name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor)


def _replace(graph: ir.Graph, norm: ir.Node, conv: ir.Node, weight: ir.Value, bias: ir.Value) -> None:
    before = [value for value in (*conv.inputs[1:], *norm.inputs[1:]) if value is not None]
    for value in (weight, bias):
        graph.register_initializer(value)
    conv.resize_inputs(3)
    conv.replace_input_with(1, weight)
    conv.replace_input_with(2, bias)
    result, name = conv.outputs[0], norm.outputs[0].name
    result.shape, result.type = norm.outputs[0].shape, norm.outputs[0].type
    norm.outputs[0].replace_all_uses_with(result, replace_graph_outputs=True)
    graph.remove(norm, safe=True)
    result.name = name
    for value in dict.fromkeys(before):
        if not value.uses() and not value.is_graph_output() and value.name is not None:
            graph.initializers.pop(value.name, None)
