"""Rewrite torchao's product of int8 matrices, which it computes with uint8.

torchao adds 128 to the left operand, since the CPU's instructions take uint8, and subtracts 128 times the column sums of the
right operand from the product. MatMulInteger has a zero point for that.
"""

from __future__ import annotations

import torch

from onnxexp.graph import Graph, Node, TensorType, Value
from onnxexp_quantized.lowering.integer_products import OFFSET_PRODUCT

_OFFSET = 128


def join_zero_points(graph: Graph) -> bool:
    """Replace the subtraction of the column sums by a zero point of the product."""
    makers = {value: node for node in graph.walk() for value in node.outputs}
    changed = False
    for node in graph.walk():
        operands = _product_and_sums(node, makers)
        if operands is not None:
            node.op, node.args, changed = OFFSET_PRODUCT, [*operands, _OFFSET], True
    return changed


def _product_and_sums(node: Node, makers: dict[Value, Node]) -> tuple[Value, Value] | None:
    """Return the operands of a product from which column sums are subtracted."""
    if node.op != "aten::sub.Tensor" or node.args[2] != 1:
        return None
    product, scaled = (makers.get(arg) if isinstance(arg, Value) else None for arg in node.args[:2])
    if product is None or product.op != "aten::_int_mm" or scaled is None or scaled.op != "aten::mul.Tensor":
        return None
    sums = makers.get(scaled.args[0]) if isinstance(scaled.args[0], Value) else None
    if scaled.args[1] != _OFFSET or sums is None or sums.op != "aten::sum.dim_IntList":
        return None
    left, right = product.args
    columns = sums.args[0] is right and sums.args[1] == [0] and sums.args[2] is True
    unsigned = isinstance(left.type, TensorType) and left.type.dtype == torch.uint8
    return (left, right) if columns and unsigned else None
