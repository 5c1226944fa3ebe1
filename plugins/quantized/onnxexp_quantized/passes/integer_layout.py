"""Move data as integers between QuantizeLinear and DequantizeLinear.

ONNX Runtime fuses a computation with the DequantizeLinear right before it and the QuantizeLinear right after it. Here
DequantizeLinear moves down, over the operators that only move data, and QuantizeLinear moves up. Integers have a quarter of the
bytes. A QuantizeLinear that meets a DequantizeLinear of equal parameters goes: the integers are the same.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxexp_quantized.passes.clip_after_quantize import move_limits_behind
from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, parameters_of, producer, sole_user

_SAME_SIZE = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_SMALLER = frozenset({"Gather", "Slice", "Split"})
_LARGER = frozenset({"Expand", "Tile"})
LAYOUT = _SAME_SIZE | _SMALLER | _LARGER
"""Operators that move data, and take integers as they take floats."""


class QuantizeBeforeLayout(QuantizedPass):
    """Move QuantizeLinear up over layout operators and limits.

    A QuantizeLinear that meets a DequantizeLinear of equal parameters is removed.
    """

    operators = frozenset({"QuantizeLinear"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        of, moved = parameters_of(node), False
        if of is None:
            return False
        while True:
            moved = move_limits_behind(node, of, editor) or moved
            above = _movable(node.inputs[0], editor.opset)
            if above is None:
                break
            node, moved = _move_up(node, above, editor), True
        dequantize = producer(node.inputs[0], "DequantizeLinear")
        if dequantize is None or parameters_of(dequantize) != of:
            return moved
        integers = dequantize.inputs[0]
        assert integers is not None
        editor.replace(node.outputs[0], integers)
        return True


class DequantizeAfterLayout(QuantizedPass):
    """Move DequantizeLinear down, so that data moves as integers."""

    operators = LAYOUT | {"MaxPool"}

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        dequantize = producer(node.inputs[0], "DequantizeLinear")
        if dequantize is None or parameters_of(dequantize) is None or not _takes_integers(node, editor.opset):
            return False
        integers = dequantize.inputs[0]
        if integers is None or integers.const_value is not None or any(value.is_graph_output() for value in node.outputs):
            return False
        node.replace_input_with(0, integers)
        for result in node.outputs:
            dtype = result.dtype
            assert dtype is not None
            result.type = integers.type
            parameters = dequantize.inputs[1:3]
            floats = editor.insert(node, "DequantizeLinear", [result, *parameters], like=result, dtype=dtype, after=True)
            editor.replace(result, floats, but=floats.producer())
        return True


def _takes_integers(node: ir.Node, opset: int) -> bool:
    """Return whether ONNX and ONNX Runtime let a layout operator take 8-bit integers."""
    return node.op_type != "MaxPool" or (opset >= 12 and len(node.outputs) == 1)


def _movable(value: ir.Value | None, opset: int) -> ir.Node | None:
    """Return the layout operator of a value with one user, if it can come after it."""
    above = producer(value, *_SAME_SIZE, *_LARGER, "MaxPool")
    if value is None or above is None or sole_user(value) is None or not _takes_integers(above, opset):
        return None
    source = above.inputs[0]
    if source is None or source.const_value is not None or sole_user(source) is not above:
        return None
    return above


def _move_up(node: ir.Node, above: ir.Node, editor: GraphEditor) -> ir.Node:
    """Put a QuantizeLinear before the layout operator above it; return the new one."""
    source, result, integers = above.inputs[0], above.outputs[0], node.outputs[0]
    assert source is not None and integers.dtype is not None
    quantized = editor.insert(
        above, "QuantizeLinear", [source, *node.inputs[1:]], dict(node.attributes), like=source, dtype=integers.dtype
    )
    above.replace_input_with(0, quantized)
    result.type = integers.type
    editor.replace(integers, result, but=node)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    made = quantized.producer()
    assert made is not None
    return made
