"""Replace a chain of operators that ends in Mul by the operator that computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp import Builder, Options
from onnxexp.rewriting import Rewriter
from onnxexp_aten.support.kernel_dtypes import runs

__all__ = ["FuseMulChains", "normalized_data"]

_FLOATS = MappingProxyType(
    {
        ir.DataType.FLOAT: torch.float32,
        ir.DataType.FLOAT16: torch.float16,
        ir.DataType.BFLOAT16: torch.bfloat16,
        ir.DataType.DOUBLE: torch.float64,
    }
)


class FuseMulChains(ir.passes.InPlacePass):
    """Fuse products of floats, as a pass.

    ``x * (1 / y)`` becomes ``x / y``: ONNX Runtime recognizes this form of the root mean square norm before opset 23.
    ``scale * (x / sqrt(mean(x^2) + epsilon))`` becomes RMSNormalization from opset 23 on.
    """

    def __init__(self, options: Options) -> None:
        self._op = Builder(options.opset, target=options.target)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        found = False
        for node in ir.traversal.RecursiveGraphIterator(model.graph):
            if node.op_type == "Mul" and not node.domain and node.outputs[0].dtype in _FLOATS:
                found = self._fuse(node) or found
        if found:
            RemoveUnusedNodesPass()(model)
        return ir.passes.PassResult(model, found)

    def _fuse(self, node: ir.Node) -> bool:
        one, other = node.inputs
        assert one is not None and other is not None
        for left, right in ((one, other), (other, one)):
            inverse = _made_by(right, "Reciprocal")
            if inverse is not None:
                _become(node, "Div", [left, inverse.inputs[0]])
                return True
            if self._runs_norm(left.dtype) and _fuse_norm(node, left, right):
                return True
        return False

    def _runs_norm(self, dtype: ir.DataType | None) -> bool:
        return dtype is not None and dtype in _FLOATS and runs(self._op, "RMSNormalization", _FLOATS[dtype])


def _fuse_norm(node: ir.Node, scale: ir.Value, x: ir.Value) -> bool:
    found = normalized_data(scale, x)
    if found is None:
        return False
    data, axis, epsilon = found
    _become(node, "RMSNormalization", [data, scale], {"axis": axis, "epsilon": epsilon})
    return True


def normalized_data(scale: ir.Value, x: ir.Value) -> tuple[ir.Value, int, float] | None:
    """Match ``scale * x`` with ``x = data / sqrt(mean(data^2) + epsilon)``.

    Returns the data, the first axis of the mean, and epsilon; None where the product is no root mean square norm.
    """
    widened = _made_by(x, "Cast")  # half precision is normalized in float32; RMSNormalization does this by itself
    quotient = _made_by(x if widened is None else widened.inputs[0], "Div")
    root = None if quotient is None else _made_by(quotient.inputs[1], "Sqrt")
    found = None if root is None else _mean_and_epsilon(root.inputs[0])
    if quotient is None or found is None:
        return None
    data, (mean, epsilon) = quotient.inputs[0], found
    axis = None if data is None else _first_axis(mean, data)
    if widened is not None:
        narrow = _made_by(data, "Cast")
        if data is None or narrow is None or data.dtype != ir.DataType.FLOAT:
            return None
        data = narrow.inputs[0]
        if data is None or data.dtype != x.dtype:
            return None
    return None if axis is None or data is None or not _has_shape(scale, data, axis) else (data, axis, epsilon)


def _become(
    node: ir.Node, operator: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, int | float] = MappingProxyType({})
) -> None:
    """Turn a node into another operator, in place."""
    node.op_type = operator
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.update({name: ir.convenience.convert_attribute(name, value) for name, value in attributes.items()})


def _made_by(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return the node that makes a value, if it is one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in operators and not node.domain else None


def _has_shape(scale: ir.Value, data: ir.Value, axis: int) -> bool:
    """Return whether the scale has the normalized axes' shape, in known sizes."""
    if scale.shape is None or data.shape is None or any(scale.shape.is_unknown_dim(place) for place in range(len(scale.shape))):
        return False
    return scale.shape == data.shape[axis:]


def _mean_and_epsilon(x: ir.Value | None) -> tuple[ir.Value, float] | None:
    """Split ``x = m + e`` with a constant number e into (m, e), or return None."""
    total = _made_by(x, "Add")
    if total is None:
        return None
    for index in (0, 1):
        epsilon, mean = _number(total.inputs[index]), total.inputs[1 - index]
        if epsilon is not None and mean is not None:
            return mean, epsilon
    return None


def _first_axis(mean: ir.Value, data: ir.Value) -> int | None:
    """Return the first axis of a mean of the squares of `data`, else None."""
    node = _made_by(mean, "ReduceMean")
    if node is None or data.shape is None:
        return None
    rank, axes = len(data.shape), Rewriter.constant_ints(node, 1, "axes")
    if axes is None or not node.attributes.get_int("keepdims", 1) or not _is_square(node.inputs[0], data):
        return None
    counted = sorted(axis % rank for axis in axes)
    return counted[0] if counted == list(range(rank - len(counted), rank)) else None


def _is_square(x: ir.Value | None, of: ir.Value) -> bool:
    node = _made_by(x, "Pow", "Mul")
    if node is None or node.inputs[0] is not of:
        return False
    return node.inputs[1] is of if node.op_type == "Mul" else _number(node.inputs[1]) == 2


def _number(value: ir.Value | None) -> float | None:
    contents = None if value is None else value.const_value
    return float(contents.numpy().reshape(-1)[0]) if contents is not None and contents.size == 1 else None
