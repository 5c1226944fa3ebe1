"""Means over all spatial axes, as GlobalAveragePool.

ONNX Runtime has an integer kernel for GlobalAveragePool, and none for ReduceMean.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, constant_of, producer, sole_user
from onnxexp_quantized.passes.quantization_parameters import parameters_of

__all__ = ["AverageAsPool"]


class AverageAsPool(QuantizedPass):
    """Replace ReduceMean over the spatial axes, between quantized tensors."""

    operators = frozenset({"ReduceMean"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        x, quantize = node.inputs[0], sole_user(node.outputs[0])
        source = producer(x, "DequantizeLinear")
        if x is None or x.shape is None or source is None or quantize is None or parameters_of(source) is None:
            return False
        if quantize.op_type != "QuantizeLinear" or parameters_of(quantize) is None or not _over_space(node, len(x.shape)):
            return False
        sizes = [*x.shape[:2], *[1] * (len(x.shape) - 2)]
        pooled = editor.insert(node, "GlobalAveragePool", [x], like=x, dtype=ir.DataType.FLOAT)
        pooled.shape = ir.Shape(sizes)
        quantize.replace_input_with(0, pooled)
        if not node.attributes.get_int("keepdims", 1):
            integers = quantize.outputs[0]
            assert integers.dtype is not None
            flat = editor.insert(quantize, "Flatten", [integers], {"axis": 1}, like=integers, dtype=integers.dtype, after=True)
            integers.shape = ir.Shape(sizes)
            editor.replace(integers, flat, but=flat.producer())
        return True


def _over_space(node: ir.Node, rank: int) -> bool:
    """Whether the axes of a ReduceMean are all but the first two."""
    if "axes" in node.attributes:
        axes = list(node.attributes["axes"].as_ints())
    elif (given := constant_of(node, 1)) is not None:
        axes = [int(axis) for axis in given.reshape(-1)]
    else:
        return False
    return rank > 2 and sorted(axis % rank for axis in axes) == list(range(2, rank))
