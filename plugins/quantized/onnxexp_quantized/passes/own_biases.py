"""Biases that keep ONNX Runtime from quantizing weights and biases itself.

Between a DequantizeLinear and a QuantizeLinear, ONNX Runtime quantizes a float weight, with one scale for the whole tensor, and a
float bias. A weight with a scale for each channel, which is a float product below opset 13, then loses its digits: results differ
from torch's by several steps. Below opset 11 ONNX Runtime also fails at the Round that it inserts, which the opset does not have.
It leaves a node alone whose bias is no initializer.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, constant_of, parameters_of, producer, sole_user
from onnxexp_quantized.passes.int32_bias import as_int32

_ROUND = 11
"""The first opset with Round."""


class OwnBiases(QuantizedPass):
    """Let a DequantizeLinear return the biases of some products.

    They have a quantized x and a quantized result, and a float weight. Below opset 11 the weight may be quantized too.
    """

    operators = frozenset({"Conv", "ConvTranspose", "Gemm", "Add"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        if node.op_type != "Add":
            return _rewrite(node, node, 2, editor)
        for index in (0, 1):
            product = producer(node.inputs[index], "MatMul")  # ONNX Runtime makes a Gemm of a MatMul and an Add
            if product is not None and sole_user(product.outputs[0]) is node:
                return _rewrite(node, product, 1 - index, editor)
        return False


def _rewrite(node: ir.Node, product: ir.Node, index: int, editor: GraphEditor) -> bool:
    """Replace the bias that is an input of `node`, for the product of x and a weight."""
    x, weight = (producer(value, "DequantizeLinear") for value in product.inputs[:2])
    if x is None or not _leads_to_quantize(node) or (weight is not None and editor.opset >= _ROUND):
        return False
    if weight is None and (_depends_on_integers(product.inputs[1]) or not _add_missing_bias(node, editor)):
        return False
    bias = constant_of(node, index)
    if bias is None or bias.dim() != 1 or bias.dtype is not torch.float32:
        return False
    if weight is None:
        quantized = as_int32(node, index, _fine_steps(bias), editor)
    elif (of := parameters_of(x)) is not None and (scale := parameters_of(weight)) is not None:
        quantized = as_int32(node, index, torch.tensor(scale.scale).double() * of.scale, editor)
    else:
        quantized = _at_run_time(node, index, x.inputs[1], weight.inputs[1], editor)
    if quantized is not None:
        node.replace_input_with(index, quantized)
    return quantized is not None


def _depends_on_integers(weight: ir.Value | None) -> bool:
    """Return whether a DequantizeLinear is among the nodes that compute a weight.

    ONNX Runtime does not fold a DequantizeLinear, so that the weight is no initializer and an integer kernel may take it.
    """
    found, seen = [weight], set()
    while found:
        node = None if (value := found.pop()) is None else value.producer()
        if node is not None and node not in seen:
            if node.op_type == "DequantizeLinear":
                return True
            seen.add(node)
            found += node.inputs
    return False


def _leads_to_quantize(node: ir.Node) -> bool:
    """Return whether only a QuantizeLinear uses a result, after any Relu and Clip."""
    user = sole_user(node.outputs[0])
    while user is not None and user.op_type in ("Relu", "Clip"):
        user = sole_user(user.outputs[0])
    return user is not None and user.op_type == "QuantizeLinear"


def _add_missing_bias(node: ir.Node, editor: GraphEditor) -> bool:
    """Add a bias of zeros to a convolution that lacks one.

    Returns False if the number of channels is unknown, else True.
    """
    if len(node.inputs) > 2 or node.op_type not in ("Conv", "ConvTranspose"):
        return True
    weight = node.inputs[1]
    shape = None if weight is None else weight.shape
    channels = None if shape is None else shape[0 if node.op_type == "Conv" else 1]
    if not isinstance(channels, int):
        return False
    size = channels if node.op_type == "Conv" else channels * node.attributes.get_int("group", 1)
    node.resize_inputs(3)
    node.replace_input_with(2, editor.constant(torch.zeros(size), torch.float32, "zero_bias"))
    return True


def _fine_steps(bias: torch.Tensor) -> torch.Tensor:
    """Return a scale that keeps the digits of a float32 bias.

    The scale is free, since no integer kernel takes a float weight.
    """
    largest = bias.detach().abs().max() if bias.numel() else torch.ones(())
    return largest.double().clamp(min=2.0**-96) / 2**30


def _at_run_time(
    node: ir.Node, index: int, x_scale: ir.Value | None, weight_scale: ir.Value | None, editor: GraphEditor
) -> ir.Value:
    """Quantize a bias in the graph, for a scale of x that is computed at run time.

    An integer kernel takes a bias whose scale is the product of the scales of x and the weight.
    """
    bias = node.inputs[index]
    assert bias is not None and x_scale is not None
    steps = editor.insert(node, "Mul", [x_scale, weight_scale], like=x_scale, dtype=ir.DataType.FLOAT)
    quotient = editor.insert(node, "Div", [bias, steps], like=bias, dtype=ir.DataType.FLOAT)
    half = editor.constant(0.5, torch.float32, "half")
    above = editor.insert(node, "Add", [quotient, half], like=bias, dtype=ir.DataType.FLOAT)
    whole = editor.insert(node, "Floor", [above], like=bias, dtype=ir.DataType.FLOAT)
    integers = editor.insert(node, "Cast", [whole], {"to": ir.DataType.INT32}, like=bias, dtype=ir.DataType.INT32)
    return editor.insert(node, "DequantizeLinear", [integers, steps], like=bias, dtype=ir.DataType.FLOAT)
