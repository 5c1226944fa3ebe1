"""The values of a layer in a quantized model and in the float model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxexp_quantization_report.operator_sets import ACTIVATIONS, MOVING
from onnxexp_quantization_report.quantize_pairs import constant, following, users

_SCALE_INPUTS = {
    "QLinearConv": 6, "QLinearMatMul": 6, "QLinearAdd": 6, "QLinearMul": 6, "QGemm": 7, "QLinearConcat": 0,
    "QLinearAveragePool": 3, "QLinearGlobalAveragePool": 3, "QLinearSigmoid": 3, "QLinearLeakyRelu": 3, "QLinearSoftmax": 3,
}  # fmt: skip
"""The input with the scale of the result; the zero point is the next one."""


@dataclasses.dataclass(frozen=True)
class LayerValue:
    """A value, and how to dequantize it.

    Attributes:
        value: The value.
        activations: The activations and scalings between the layer's node and the value.
        scale, zero_point: The parameters of integers; None for floats.
    """

    value: ir.Value
    activations: tuple[str, ...]
    scale: ir.Value | None = None
    zero_point: ir.Value | None = None

    @property
    def begins_at_zero(self) -> bool:
        """Whether the integers begin at 0.0, so that QuantizeLinear does what Relu does."""
        zero = self.zero_point.const_value if self.zero_point is not None else None
        return zero is not None and zero.dtype.is_integer() and bool(np.all(zero.numpy() == zero.dtype.min))

    def needed(self) -> list[ir.Value]:
        """Return the values to compute."""
        return [each for each in (self.value, self.scale, self.zero_point) if each is not None and each.const_value is None]

    def read(self, computed: Mapping[str, Any]) -> Any:
        """Return the value in float; None if it is none of the computed ones."""
        numbers = computed.get(self.value.name or "")
        if numbers is None:
            return None
        if self.scale is None:
            return numbers if numbers.dtype.kind == "f" else None  # integers without a scale mean nothing
        scale, zero = _array(self.scale, computed), _array(self.zero_point, computed)
        if scale is None or scale.size != 1:  # activations have one scale
            return None
        return (numbers.astype(np.float32) - (0 if zero is None else zero.astype(np.float32))) * scale


def _array(value: ir.Value | None, computed: Mapping[str, Any]) -> Any:
    """Return a constant or a computed value as an array; None if there is none."""
    if value is None:
        return None
    return value.const_value.numpy() if value.const_value is not None else computed.get(value.name or "")


def quantized_value(node: ir.Node) -> LayerValue | None:
    """Return a layer's value in the quantized model, after a following QuantizeLinear."""
    if node.op_type in _SCALE_INPUTS:
        return LayerValue(node.outputs[0], (), *_parameters_after(node, node, _SCALE_INPUTS[node.op_type]))
    if node.op_type in MOVING and (found := _parameters_of(node.inputs[0])) is not None:
        return LayerValue(node.outputs[0], (), *found)
    start = _after_integers(node) if node.op_type in ("MatMulInteger", "ConvInteger") else node
    after = following(start)
    value, activations = start.outputs[0], list[str]()
    for each in after.between:
        if each.op_type in MOVING:
            return LayerValue(value, tuple(activations))
        if _is_activation_or_scaling(each):
            activations.append(each.op_type)
        value = each.outputs[0]
    if after.quantize is None:
        return LayerValue(value, tuple(activations))
    value = after.quantize.outputs[0]
    while [each.op_type for each in users(value)] == ["Clip"]:  # a narrower range of integers
        value = users(value)[0].outputs[0]
    return LayerValue(value, tuple(activations), *_parameters_after(node, after.quantize, 1))


def float_value(node: ir.Node, quantized: LayerValue) -> LayerValue | None:
    """Return a layer's value in the float model, after the same activations.

    Returns None if the float model has other activations there.
    """
    value, expected = node.outputs[0], list(quantized.activations)
    for each in following(node).between:
        if each.op_type in MOVING:
            break
        if expected[:1] == [each.op_type]:
            expected.pop(0)
        elif _is_activation_or_scaling(each) and not (quantized.begins_at_zero and each.op_type in ("Relu", "Clip")):
            break
        value = each.outputs[0]
    return None if expected else LayerValue(value, quantized.activations)


def _is_activation_or_scaling(node: ir.Node) -> bool:
    """Return whether a node is an activation or scaling, not a bias or normalization."""
    return node.op_type == "Mul" or (node.op_type in ACTIVATIONS and node.op_type != "BatchNormalization")


def _after_integers(node: ir.Node) -> ir.Node:
    """Return the product with the scale, which follows MatMulInteger and ConvInteger."""
    for _ in range(3):
        found = users(node.outputs[0])
        if len(found) != 1 or found[0].op_type not in ("Cast", "Mul") or constant(found[0].outputs[0]):
            return node
        node = found[0]
    return node


def _parameters_of(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None] | None:
    """Find the scale and zero point of integers, through moves; None if unknown."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "QuantizeLinear" or node.op_type in _SCALE_INPUTS:
            return _parameters(node, _SCALE_INPUTS.get(node.op_type, 1))
        if node.op_type not in MOVING and node.op_type != "Clip":
            return None
        value = node.inputs[0]
    return None


def _parameters_after(layer: ir.Node, node: ir.Node, place: int) -> tuple[ir.Value | None, ir.Value | None]:
    """Find the scale and zero point of a layer's integers.

    An average is rounded with a scale of 1, and its integers have the parameters of its argument.
    """
    scale, zero = _parameters(node, place)
    if scale is None or scale.const_value is None or not np.all(scale.const_value.numpy() == 1):
        return scale, zero
    source = layer.inputs[0]
    maker = source.producer() if source is not None else None
    if maker is not None and maker.op_type == "DequantizeLinear":
        source = maker.inputs[0]
    return _parameters_of(source) or (scale, zero)


def _parameters(node: ir.Node, place: int) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the inputs of a node that are a scale and the zero point after it."""
    scale, zero = (node.inputs[index] if index < len(node.inputs) else None for index in (place, place + 1))
    return scale, zero
