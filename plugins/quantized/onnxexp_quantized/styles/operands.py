"""Quantized operands of a node: integers with scale and zero point."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, constant_of, parameters_of, producer, sole_user

_EIGHT_BITS = (torch.int8, torch.uint8)
_LARGEST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Operand:
    """A quantized value with the inputs that describe it.

    Attributes:
        integers: The 8-bit integers.
        parameters: Scale and zero point, as inputs of a quantized operator.
        scale: The contents of the scale.
    """

    integers: ir.Value
    parameters: tuple[ir.Value | None, ir.Value | None]
    scale: torch.Tensor

    @property
    def inputs(self) -> tuple[ir.Value | None, ...]:
        """The integers, the scale and the zero point."""
        return (self.integers, *self.parameters)

    @property
    def dtype(self) -> ir.DataType:
        dtype = self.integers.dtype
        assert dtype is not None
        return dtype


@dataclasses.dataclass(frozen=True)
class Weight:
    """A constant quantized matrix or kernel.

    Attributes:
        node: Its DequantizeLinear.
        transposed: Whether a Transpose follows.
    """

    node: ir.Node
    transposed: bool

    def operand(self, editor: GraphEditor, transpose: bool = False) -> Operand:
        """Return the operand; a matrix that has to be transposed is stored anew."""
        integers, scale, zero_point = (constant_of(self.node, index) for index in range(3))
        value = self.node.inputs[0]
        assert integers is not None and scale is not None and zero_point is not None and value is not None
        if self.transposed != transpose:
            value = editor.constant(integers.t(), integers.dtype, value.name or "weight")
        if scale.numel() == 1:
            parameters = (
                editor.constant(scale.item(), torch.float32, "scale"),
                editor.constant(zero_point.item(), zero_point.dtype, "zero_point"),
            )
            return Operand(value, parameters, scale.reshape(()))
        return Operand(value, (self.node.inputs[1], self.node.inputs[2]), scale)


def activation(value: ir.Value | None) -> Operand | None:
    """Return the operand of a value that a DequantizeLinear with one scale made."""
    node = producer(value, "DequantizeLinear")
    return None if node is None else _operand(node, node.inputs[0])


def quantized_result(value: ir.Value) -> Operand | None:
    """Return the operand of a result that only a QuantizeLinear with one scale uses."""
    node = sole_user(value)
    if node is None or node.op_type != "QuantizeLinear" or node.domain or node.inputs[0] is not value:
        return None
    return _operand(node, node.outputs[0])


def _operand(node: ir.Node, integers: ir.Value | None) -> Operand | None:
    of = parameters_of(node)
    if of is None or integers is None:
        return None
    return Operand(integers, (node.inputs[1], node.inputs[2]), torch.tensor(of.scale))


def weight_of(value: ir.Value | None, channels: int) -> Weight | None:
    """Return a constant with one scale, or one for each index of the axis `channels`."""
    transpose = producer(value, "Transpose")
    if transpose is not None:
        value, channels = transpose.inputs[0], 1 - channels
    node = producer(value, "DequantizeLinear")
    if node is None or "block_size" in node.attributes:
        return None
    integers, scale, zero_point = (constant_of(node, index) for index in range(3))
    if integers is None or scale is None or zero_point is None or integers.dtype not in _EIGHT_BITS:
        return None
    if transpose is not None and integers.dim() != 2:
        return None
    axis = node.attributes.get_int("axis", 1) % max(integers.dim(), 1)
    fits = scale.numel() == 1 or (scale.dim() == 1 and axis == channels)
    return Weight(node, transpose is not None) if fits and scale.dtype is torch.float32 else None


def int32_bias(node: ir.Node, index: int, x: Operand, weight: Operand, editor: GraphEditor) -> ir.Value | None:
    """Return an int32 bias whose scale is the product of the operands' scales.

    The given bias is a float32 vector that is constant, or the DequantizeLinear of int32 with that scale. Returns None for
    any other bias, and where int32 overflows.
    """
    value, steps = node.inputs[index], x.scale.double() * weight.scale.double()
    dequantize = producer(value, "DequantizeLinear")
    if dequantize is not None:
        scale, integers = constant_of(dequantize, 1), dequantize.inputs[0]
        same = scale is not None and torch.allclose(scale.double(), steps, rtol=1e-6, atol=0)
        return integers if same and integers is not None and integers.dtype == ir.DataType.INT32 else None
    bias = constant_of(node, index)
    if bias is None or value is None or bias.dim() != 1 or bias.dtype is not torch.float32:
        return None
    integers_ = torch.round(bias.detach().double() / steps)
    if not bool((integers_.abs() <= _LARGEST).all()):
        return None
    return editor.constant(integers_, torch.int32, f"{value.name}_quantized")
