"""Dequantize the weights of float operators by Cast, Sub and Mul.

ONNX Runtime computes a product of a float tensor and a DequantizeLinear with integers. It folds Cast, Sub and Mul into a float
weight when it loads the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass
from onnxexp_quantized.weights.narrow import is_weight_only


class FloatWeights(QuantizedPass):
    """Replace the DequantizeLinear of a weight by Cast, Sub and Mul.

    The weight's operator has float activations.
    """

    operators = frozenset({"DequantizeLinear"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        parts = [value for value in node.inputs if value is not None and value.const_value is not None]
        result = node.outputs[0]
        if result.dtype is None or len(parts) != len(node.inputs) or parts[1].dtype != result.dtype or not is_weight_only(node):
            return False
        sizes, of_scale = _sizes(parts[0]), _sizes(parts[1])
        axis, block = node.attributes.get_int("axis", 1) % len(sizes), node.attributes.get_int("block_size", 0)
        split = sizes
        if block:
            split = [*sizes[:axis], sizes[axis] // block, block, *sizes[axis + 1 :]]
            of_scale.insert(axis + 1, 1)
        elif of_scale:
            of_scale += [1] * (len(sizes) - axis - 1)
        nodes = _NewNodes(node, result.dtype, editor)
        weight = nodes.floats(parts[0], split)
        for zero_point in parts[2:]:
            weight = nodes.computed("Sub", [weight, nodes.floats(zero_point, of_scale)], split)
        weight = nodes.computed("Mul", [weight, nodes.floats(parts[1], of_scale)], split)
        editor.replace(result, nodes.reshaped(weight, sizes))
        return True


def _sizes(constant: ir.Value) -> list[int]:
    assert constant.const_value is not None
    return list(constant.const_value.shape.numpy())


class _NewNodes:
    """New nodes before a DequantizeLinear, with results of its dtype."""

    def __init__(self, place: ir.Node, dtype: ir.DataType, editor: GraphEditor) -> None:
        self._place, self._dtype, self._editor = place, dtype, editor

    def floats(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return a constant as floats of a shape."""
        if value.dtype != self._dtype:
            value = self.computed("Cast", [value], _sizes(value), to=int(self._dtype))
        return self.reshaped(value, shape)

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return the elements of a value in a shape."""
        if value.shape == ir.Shape(shape):
            return value
        return self.computed("Reshape", [value, self._editor.constant(list(shape), torch.int64, "shape")], shape)

    def computed(self, operator: str, inputs: Sequence[ir.Value], shape: Sequence[int], **attributes: int) -> ir.Value:
        """Insert a node, and return its result."""
        like = self._place.outputs[0]
        result = self._editor.insert(self._place, operator, inputs, attributes, like=like, dtype=self._dtype)
        result.shape = ir.Shape(shape)
        return result
