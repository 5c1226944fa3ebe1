"""Fuse the last of several captured operators into one ONNX operator.

Dead code elimination removes the nodes that the fusion leaves without users.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.support.kernel_dtypes import compute, runs
from onnxexp_aten.support.producers import given_ints, made_by

__all__ = ["fused_product"]


def fused_product(op: Builder, one: Tensor, other: Tensor) -> Tensor | None:
    """A better operator than Mul for a product of floats; None if none fits.

    ``x * (1 / y)`` becomes ``x / y``: ONNX Runtime recognizes this form of the root mean square norm before opset 23.
    ``scale * (x / sqrt(mean(x^2) + epsilon))`` becomes RMSNormalization from opset 23 on.
    """
    for left, right in ((one, other), (other, one)):
        inverse = made_by(op, right, "Reciprocal")
        if inverse is not None:
            return compute(op, "Div", left, inverse[1])
        if runs(op, "RMSNormalization", left.dtype):
            normalized = _rms_normalization(op, left, right)
            if normalized is not None:
                return normalized
    return None


def _rms_normalization(op: Builder, scale: Tensor, x: Tensor) -> Tensor | None:
    widened = made_by(op, x, "Cast")  # half precision is normalized in float32; RMSNormalization does this by itself
    quotient = made_by(op, x if widened is None else widened[1], "Div")
    root = None if quotient is None else made_by(op, _input(op, quotient[0], 1), "Sqrt")
    found = None if root is None else _mean_and_epsilon(op, root[1])
    if quotient is None or found is None:
        return None
    data, (mean, epsilon) = quotient[1], found
    axis = _first_axis(op, mean, data)
    if widened is not None:
        narrow = made_by(op, data, "Cast")
        if narrow is None or narrow[1].dtype != x.dtype or data.dtype != torch.float32:
            return None
        data = narrow[1]
    if axis is None or data.shape is None or scale.shape != data.shape[axis:]:
        return None
    return op.RMSNormalization(data, scale, axis=axis, epsilon=epsilon)


def _mean_and_epsilon(op: Builder, x: Tensor) -> tuple[Tensor, float] | None:
    """Split ``x = m + e`` with a constant number e into (m, e); else None."""
    total = made_by(op, x, "Add")
    if total is None:
        return None
    for index in (0, 1):
        epsilon = _number(total[0].inputs[index])
        if epsilon is not None:
            return _input(op, total[0], 1 - index), epsilon
    return None


def _first_axis(op: Builder, mean: Tensor, data: Tensor) -> int | None:
    """First axis over which `mean` averages the squares of `data`; else None."""
    averaged = made_by(op, mean, "ReduceMean")
    if averaged is None or data.rank is None:
        return None
    node, squares = averaged
    axes, keepdims = given_ints(node, 1, "axes"), node.attributes.get("keepdims")
    if axes is None or (keepdims is not None and not keepdims.as_int()) or not _is_square(op, squares, data):
        return None
    counted = sorted(axis % data.rank for axis in axes)
    return counted[0] if counted == list(range(data.rank - len(counted), data.rank)) else None


def _is_square(op: Builder, x: Tensor, of: Tensor) -> bool:
    found = made_by(op, x, "Pow", "Mul")
    if found is None or found[1].value is not of.value:
        return False
    second = found[0].inputs[1]
    return second is of.value if found[0].op_type == "Mul" else _number(second) == 2


def _number(value: ir.Value | None) -> float | None:
    known = None if value is None else value.const_value
    return float(known.numpy().reshape(-1)[0]) if known is not None and known.size == 1 else None


def _input(op: Builder, node: ir.Node, index: int) -> Tensor:
    value = node.inputs[index]
    assert value is not None
    return op.state.tensors[value] if value in op.state.tensors else op.constant(0)  # no pattern contains a constant here
