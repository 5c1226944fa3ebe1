"""The DequantizeLinear before a node, and the QuantizeLinear after it."""

from __future__ import annotations

import dataclasses
from typing import Any

import onnx_ir as ir

from onnxexp_quantization_report.operator_sets import ACTIVATIONS, MOVING


@dataclasses.dataclass(frozen=True)
class Dequantized:
    """Where an input of a node comes from.

    Attributes:
        node: The DequantizeLinear.
        moves: The nodes between it and the input, which move elements only.
    """

    node: ir.Node
    moves: tuple[ir.Node, ...]

    @property
    def dtype(self) -> ir.DataType | None:
        return quantized_type(self.node)

    @property
    def constant(self) -> bool:
        """Whether these are weights."""
        return constant(self.node.inputs[0])

    @property
    def has_zero_point(self) -> bool:
        return len(self.node.inputs) > 2 and self.node.inputs[2] is not None


@dataclasses.dataclass(frozen=True)
class Following:
    """Where the result of a node goes.

    Attributes:
        between: The activations, sums with a bias and moves that follow one by one.
        value: The result of the last one.
        quantize: A QuantizeLinear that takes the value, None if there is none.
        others: Other nodes that take it.
        output: Whether it is an output of the model.
    """

    between: tuple[ir.Node, ...]
    value: ir.Value
    quantize: ir.Node | None
    others: tuple[ir.Node, ...]
    output: bool


def constant(value: ir.Value | None) -> bool:
    """Return whether a value is known before the run."""
    if value is None or value.const_value is not None or value.is_initializer():
        return True
    node = value.producer()
    return node is not None and (node.op_type == "Constant" or (bool(node.inputs) and all(map(constant, node.inputs))))


def dequantized(value: ir.Value | None) -> Dequantized | None:
    """Find the DequantizeLinear that a value comes from; None if there is none."""
    moves: list[ir.Node] = []
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "DequantizeLinear":
            return Dequantized(node, tuple(moves))
        if node.op_type not in MOVING or node.op_type == "Concat":
            return None
        moves.append(node)
        value = node.inputs[0]
    return None


def following(node: ir.Node) -> Following:
    """Follow a node's result to the QuantizeLinear, or to where it is used as float."""
    value, between = node.outputs[0], list[ir.Node]()
    while True:
        found = users(value)
        quantize = next((user for user in found if user.op_type == "QuantizeLinear"), None)
        others = tuple(user for user in found if user.op_type != "QuantizeLinear")
        output = value.is_graph_output()
        if quantize is not None or output or len(others) != 1 or not _passes(others[0], value):
            return Following(tuple(between), value, quantize, others, output)
        between.append(others[0])
        value = others[0].outputs[0]


def _passes(node: ir.Node, value: ir.Value) -> bool:
    """Return whether a node is a part of the layer before: activation, bias or move."""
    if node.op_type in ("Add", "Mul"):
        return all(constant(each) for each in node.inputs if each is not value)
    return node.op_type in ACTIVATIONS or (node.op_type in MOVING and node.op_type != "Concat" and node.inputs[0] is value)


def users(value: ir.Value) -> list[ir.Node]:
    """Return the nodes that take a value, each once."""
    return list(dict.fromkeys(value.consumers()))


def quantized_type(node: ir.Node) -> ir.DataType | None:
    """Return the integers' type at a Quantize- or DequantizeLinear; None if unknown."""
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        given = node.inputs[2]
        return given.const_value.dtype if given.const_value is not None else given.dtype
    value = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    if value is None:
        return None
    return value.const_value.dtype if value.const_value is not None else value.dtype


def zero_point(node: ir.Node) -> Any:
    """Return the zero point as an array; None if it is computed, 0 if it is absent."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return 0
    found = node.inputs[2].const_value
    return None if found is None else found.numpy()
