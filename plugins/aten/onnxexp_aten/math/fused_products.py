"""What several captured operators are as one ONNX operator, found when the last of them is lowered.

The nodes that have become useless are dropped with everything else that nothing uses.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.support.kernel_dtypes import compute, runs
from onnxexp_aten.support.producers import given_ints, made_by

__all__ = ["fused_product"]


def fused_product(op: Builder, one: Tensor, other: Tensor) -> Tensor | None:
    """The product of two float tensors where there is something better than Mul, else None.

    ``x * (1 / y)`` is ``x / y``, which is how ONNX Runtime recognizes a root mean square norm before opset 23, and
    ``scale * (x / sqrt(mean(x^2) + epsilon))`` is RMSNormalization from opset 23 on.
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
    widened = made_by(op, x, "Cast")  # half precision is normalized in float32, as the operator does by itself
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
    """(m, e) where `x` is m + e and e a number."""
    total = made_by(op, x, "Add")
    if total is None:
        return None
    for index in (0, 1):
        epsilon = _number(total[0].inputs[index])
        if epsilon is not None:
            return _input(op, total[0], 1 - index), epsilon
    return None


def _first_axis(op: Builder, mean: Tensor, data: Tensor) -> int | None:
    """The axis from which on `mean` averages the squares of `data`, None where it is anything else."""
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
    return op.state.tensors[value] if value in op.state.tensors else op.constant(0)  # a constant is none of what is looked for
