"""Weights of 4 and 2 bits, stored as such."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp.rewriting import UniqueNames
from onnxexp_quantized.passes.graph_editor import constant_of, producer

_TYPES = [
    (torch.int8, 25, 2, ir.DataType.INT2),
    (torch.uint8, 25, 2, ir.DataType.UINT2),
    (torch.int8, 21, 4, ir.DataType.INT4),
    (torch.uint8, 21, 4, ir.DataType.UINT4),
]
"""The dtype in torch, the first opset, the number of bits, and ONNX's type."""


class NarrowWeights(ir.passes.InPlacePass):
    """Store the integers of weights in the fewest bits that hold them.

    Only weights of products with float tensors are narrowed: ONNX Runtime has kernels for these types beside float activations,
    and none beside quantized ones.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        opset = model.graph.opset_imports.get("", 1)
        nodes = [node for node in ir.traversal.RecursiveGraphIterator(model.graph) if node.op_type == "DequantizeLinear"]
        changed = [_narrow(node, opset, model.graph) for node in nodes]
        if any(changed):
            RemoveUnusedNodesPass()(model)
        return ir.passes.PassResult(model, any(changed))


def _narrow(node: ir.Node, opset: int, graph: ir.Graph) -> bool:
    integers, zero = constant_of(node, 0), constant_of(node, 2)
    if integers is None or zero is None or integers.dim() < 2 or not is_weight_only(node):
        return False
    for dtype, first, bits, narrow in _TYPES:
        if integers.dtype == dtype and opset >= first and _fits(integers, bits) and _fits(zero, bits):
            _replace(node, 0, integers, narrow, bits, graph)
            if bool(zero.any()):
                _replace(node, 2, zero, narrow, bits, graph)
            else:  # the default; ONNX Runtime needs zero points for integer products only
                node.resize_inputs(2)
            return True
    return False


def is_weight_only(dequantize: ir.Node) -> bool:
    """Return whether a weight is dequantized for products with float tensors only."""
    users = [(user, index) for user, index in dequantize.outputs[0].uses()]
    return bool(users) and all(
        user.op_type == "MatMul" and index == 1 and producer(user.inputs[0], "DequantizeLinear") is None for user, index in users
    )


def _fits(integers: torch.Tensor, bits: int) -> bool:
    lowest = 0 if integers.dtype == torch.uint8 else -(2 ** (bits - 1))
    return integers.numel() == 0 or bool((integers.min() >= lowest) & (integers.max() < lowest + 2**bits))


def _replace(node: ir.Node, index: int, integers: torch.Tensor, narrow: ir.DataType, bits: int, graph: ir.Graph) -> None:
    """Give a node an input with the same integers, packed when they are written."""
    value = node.inputs[index]
    assert value is not None
    if len(value.uses()) > 1:
        value = ir.Value(name=UniqueNames(graph.initializers).unique(f"{value.name}_{bits}_bits"), shape=ir.Shape(integers.shape))
        graph.register_initializer(value)
        node.replace_input_with(index, value)
    shape, name = ir.Shape(integers.shape), value.name

    def contents() -> ir.PackedTensor[npt.NDArray[np.uint8]]:
        return ir.PackedTensor(_packed(integers, bits), narrow, shape=shape, name=name)

    value.const_value = ir.LazyTensor(contents, dtype=narrow, shape=shape, name=name)
    value.type = ir.TensorType(narrow)


def _packed(integers: torch.Tensor, bits: int) -> npt.NDArray[np.uint8]:
    """Pack integers into bytes, the first into the lowest bits."""
    per_byte = 8 // bits
    flat = integers.detach().cpu().contiguous().view(torch.uint8).reshape(-1) & (2**bits - 1)
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % per_byte)).reshape(-1, per_byte)
    packed = sum((padded[:, place] << (bits * place) for place in range(per_byte)), torch.zeros(1, dtype=torch.uint8))
    contents: npt.NDArray[np.uint8] = packed.numpy()
    return contents
