"""Signed activations as unsigned ones.

ONNX Runtime's fusions on x86 take int8 weights with uint8 activations. It turns int8 activations into uint8 itself where
DequantizeLinear follows QuantizeLinear directly; with a Clip or a Reshape of integers between the two it does not, and computes
the layer in float32.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, constant_of, parameters_of
from onnxexp_quantized.passes.integer_layout import LAYOUT

_SHIFT = 128
_PASSED_ON = LAYOUT | {"Clip", "Concat", "MaxPool"}
"""Operators that keep the order of integers, and move or limit them."""


class UnsignedActivations(QuantizedPass):
    """Add 128 to all integers between a QuantizeLinear and its DequantizeLinear nodes.

    Integers that are inputs or outputs of the model stay signed, and so do constants.
    """

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        values = _connected(node.outputs[0])
        if values is None:
            return False
        touched = {each: None for value in values for each in (value.producer(), *(user for user, _ in value.uses()))}
        for each in touched:
            assert each is not None
            if each.op_type in ("QuantizeLinear", "DequantizeLinear"):
                of = parameters_of(each)
                assert of is not None
                each.replace_input_with(2, editor.constant(of.zero_point + _SHIFT, torch.uint8, "zero_point"))
            elif each.op_type == "Clip":
                for index in range(1, len(each.inputs)):
                    limit = constant_of(each, index)
                    if limit is not None:
                        each.replace_input_with(index, editor.constant(int(limit) + _SHIFT, torch.uint8, "limit"))
        for value in values:
            value.type = ir.TensorType(ir.DataType.UINT8)
        return True


def _connected(start: ir.Value) -> list[ir.Value] | None:
    """Return the signed values connected with this one; None if one must stay signed."""
    found, waiting = {start: None}, [start]
    while waiting:
        value = waiting.pop()
        maker = value.producer()
        if value.is_graph_output() or maker is None or value.dtype != ir.DataType.INT8:
            return None
        beside = _beside(maker)
        for user, index in value.uses():
            more = _beside(user) if index == 0 or user.op_type == "Concat" else None
            beside = None if beside is None or more is None else [*beside, *more]
        if beside is None:
            return None
        for each in beside:
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def _beside(node: ir.Node) -> list[ir.Value] | None:
    """Return the signed values of a node, or None.

    The result is None if the node cannot take unsigned values instead.
    """
    if node.domain:
        return None
    if node.op_type == "QuantizeLinear":
        constant = node.inputs[0] is None or node.inputs[0].const_value is not None
        unfit = constant or parameters_of(node) is None or "output_dtype" in node.attributes
        return None if unfit else list(node.outputs)
    if node.op_type == "DequantizeLinear":
        return None if node.inputs[0] is None or parameters_of(node) is None else [node.inputs[0]]
    if node.op_type not in _PASSED_ON:
        return None
    if node.op_type == "Clip" and any(
        node.inputs[index] is not None and constant_of(node, index) is None for index in (1, 2)[: len(node.inputs) - 1]
    ):
        return None
    sources = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return [*(value for value in sources if value is not None), *node.outputs]
