"""Activation functions.

A formula replaces ONNX's operator where the opset or ONNX Runtime lacks it.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import clamp, extreme, is_number, scaled, select
from onnxexp_aten.math.comparison_and_bitwise import relate
from onnxexp_aten.random.uniform_and_normal import uniform_of
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.constant_of_shape import sizes_like
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs, targets_plain_onnx
from onnxexp_aten.support.read_arguments import axis_of, rank_of, truncate_like_torch
from onnxexp_aten.support.type_promotion import to_float

table = SymbolicTable("aten")


# Piecewise linear


@table("relu")
def relu(op: Builder, self: Tensor) -> Tensor:
    """relu(Tensor self) -> Tensor"""
    if not self.dtype.is_floating_point and not runs(op, "Relu", self.dtype):
        return extreme(op, "Max", self, op.constant(0, self.dtype))
    return compute(op, "Relu", self)


@table("relu6")
def relu6(op: Builder, self: Tensor) -> Tensor:
    """relu6(Tensor self) -> Tensor"""
    return clamp(op, self, 0, 6)


@table("hardtanh")
def hardtanh(op: Builder, self: Tensor, min_val: Any, max_val: Any) -> Tensor:
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    bounds = (min_val, max_val) if self.dtype.is_floating_point else (int(min_val), int(max_val))
    return clamp(op, self, *bounds)


@table("threshold")
def threshold(op: Builder, self: Tensor, threshold: Any, value: Any) -> Tensor:
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    if is_number(threshold, 0) and is_number(value, 0):
        return relu(op, self)
    if is_number(value, 0) and op.is_static(threshold) and runs(op, "ThresholdedRelu", self.dtype):
        return op.ThresholdedRelu(self, alpha=float(op.static(threshold)))
    bound = op.cast(truncate_like_torch(threshold, self.dtype), self.dtype)
    replacement = op.cast(truncate_like_torch(value, self.dtype), self.dtype)
    return select(op, relate(op, "LessOrEqual", self, bound), replacement, self)


@table("leaky_relu")
def leaky_relu(op: Builder, self: Tensor, negative_slope: Any) -> Tensor:
    """leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if op.is_static(negative_slope) and runs(op, "LeakyRelu", self.dtype):
        return op.LeakyRelu(self, alpha=float(op.static(negative_slope)))
    return select(op, compare(op, "Less", self, 0), compute(op, "Mul", self, negative_slope), self)


@table("rrelu")
def rrelu(op: Builder, self: Tensor, lower: Any, upper: Any, training: bool, generator: Any) -> Tensor:
    """rrelu(Tensor self, Scalar lower=0.125, ...) -> Tensor"""
    return _rrelu(op, self, lower, upper, training)


@table("rrelu_with_noise_functional")
def rrelu_with_noise_functional(
    op: Builder, self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, generator: Any
) -> tuple[Tensor, Tensor]:
    """rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, ...) -> (Tensor, Tensor noise_out)"""
    return _rrelu(op, self, lower, upper, training), noise


@table("rrelu_with_noise")
def rrelu_with_noise(op: Builder, self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, generator: Any) -> Tensor:
    """rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, ...) -> Tensor"""
    return _rrelu(op, self, lower, upper, training)


def _rrelu(op: Builder, x: Tensor, lower: Any, upper: Any, training: bool) -> Tensor:
    """Scale negative elements by random slopes in training, else by the mean slope."""
    if not training:
        if op.is_static([lower, upper]):
            return leaky_relu(op, x, (op.static(lower) + op.static(upper)) / 2)
        return leaky_relu(op, x, scaled(op, compute(op, "Add", op.cast(lower, x.dtype), upper), 0.5))
    slope = uniform_of(op, sizes_like(op, x), x.dtype, float(op.static(lower, "lower")), float(op.static(upper, "upper")))
    return select(op, compare(op, "Less", x, 0), compute(op, "Mul", x, slope), x)


@table("prelu", "_prelu_kernel")
def prelu(op: Builder, self: Tensor, weight: Tensor) -> Tensor:
    """prelu(Tensor self, Tensor weight) -> Tensor; one weight, or one per channel (dimension 1)"""
    slope = weight
    rank = rank_of(op, self)
    if weight.rank == 1 and weight.shape == (1,):
        slope = op.Reshape(weight, [1] * max(rank, 1)) if rank > 1 else weight
    elif weight.rank == 1 and rank > 2:
        slope = op.Unsqueeze(weight, axes=list(range(1, rank - 1)))
    if runs(op, "PRelu", self.dtype) and rank > 0:
        return op.PRelu(self, slope)
    result = select(op, compare(op, "Less", self, 0), compute(op, "Mul", self, slope), self)
    return op.Reshape(result, []) if rank == 0 else result


@table("hardswish")
def hardswish(op: Builder, self: Tensor) -> Tensor:
    """hardswish(Tensor self) -> Tensor"""
    if runs(op, "HardSwish", self.dtype):
        return op.HardSwish(self)
    return compute(op, "Mul", self, hardsigmoid(op, self))


@table("hardsigmoid")
def hardsigmoid(op: Builder, self: Tensor) -> Tensor:
    """hardsigmoid(Tensor self) -> Tensor"""
    if runs(op, "HardSigmoid", self.dtype):
        return op.HardSigmoid(self, alpha=1 / 6, beta=0.5)
    return clamp(op, compute(op, "Add", compute(op, "Div", self, 6.0), 0.5), 0, 1)


@table("hardshrink")
def hardshrink(op: Builder, self: Tensor, lambd: Any) -> Tensor:
    """hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor; NaN stays NaN, which ONNX's Shrink makes 0"""
    inside = relate(op, "LessOrEqual", compute(op, "Abs", self), op.cast(lambd, self.dtype))
    return select(op, inside, op.constant(0.0, self.dtype), self)


@table("softshrink")
def softshrink(op: Builder, self: Tensor, lambd: Any) -> Tensor:
    """softshrink(Tensor self, Scalar lambd=0.5) -> Tensor; NaN stays NaN, which ONNX's Shrink makes 0"""
    if op.is_static(lambd):
        bound = float(op.static(lambd))
        return compute(op, "Sub", self, clamp(op, self, -bound, bound))
    computed = op.cast(lambd, self.dtype)
    return compute(op, "Sub", self, clamp(op, self, compute(op, "Neg", computed), computed))


# Exponential


@table("elu")
def elu(op: Builder, self: Tensor, alpha: Any, scale: Any, input_scale: Any) -> Tensor:
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    if is_number(scale, 1) and is_number(input_scale, 1) and op.is_static(alpha) and runs(op, "Elu", self.dtype):
        return op.Elu(self, alpha=float(op.static(alpha)))
    falling = compute(op, "Sub", compute(op, "Exp", scaled(op, self, input_scale)), 1)
    return scaled(op, select(op, compare(op, "Less", self, 0), scaled(op, falling, alpha), self), scale)


@table("selu")
def selu(op: Builder, self: Tensor) -> Tensor:
    """selu(Tensor self) -> Tensor"""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return op.Selu(self) if runs(op, "Selu", self.dtype) else elu(op, self, alpha, scale, 1)


@table("celu")
def celu(op: Builder, self: Tensor, alpha: Any) -> Tensor:
    """celu(Tensor self, Scalar alpha=1.0) -> Tensor"""
    if not op.is_static(alpha):
        return elu(op, self, alpha, 1, compute(op, "Reciprocal", op.cast(alpha, self.dtype)))
    steepness = float(op.static(alpha))
    if steepness == 1:
        return elu(op, self, 1, 1, 1)
    return op.Celu(self, alpha=steepness) if runs(op, "Celu", self.dtype) else elu(op, self, steepness, 1, 1 / steepness)


@table("softplus")
def softplus(op: Builder, self: Tensor, beta: Any, threshold: Any) -> Tensor:
    """softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor; linear above the threshold"""
    x = scaled(op, self, beta)
    if runs(op, "Softplus", x.dtype):
        curve = op.Softplus(x)
    else:
        decay = compute(op, "Exp", compute(op, "Neg", compute(op, "Abs", x)))
        curve = compute(op, "Add", compute(op, "Relu", x), compute(op, "Log", compute(op, "Add", decay, 1)))
    curve = curve if is_number(beta, 1) else compute(op, "Div", curve, beta)
    # From 20 on, the curve equals the line to the last bit of float32.
    needs_no_line = op.is_static(threshold) and op.static(threshold) >= 20 and x.dtype != torch.float64
    return curve if needs_no_line else select(op, compare(op, "Greater", x, threshold), self, curve)


@table("log_sigmoid")
def log_sigmoid(op: Builder, self: Tensor) -> Tensor:
    """log_sigmoid(Tensor self) -> Tensor"""
    return compute(op, "Neg", softplus(op, compute(op, "Neg", self), 1, 20))


@table("log_sigmoid_forward")
def log_sigmoid_forward(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return log_sigmoid(op, self), compute(op, "Exp", compute(op, "Neg", compute(op, "Abs", self)))


# Gates


@table("silu")
def silu(op: Builder, self: Tensor) -> Tensor:
    """silu(Tensor self) -> Tensor; ONNX Runtime decomposes Swish and does not fuse it again"""
    if targets_plain_onnx(op, since=24):
        return op.Swish(self)
    return compute(op, "Mul", self, compute(op, "Sigmoid", self))


@table("mish")
def mish(op: Builder, self: Tensor) -> Tensor:
    """mish(Tensor self) -> Tensor"""
    if runs(op, "Mish", self.dtype):
        return op.Mish(self)
    return compute(op, "Mul", self, compute(op, "Tanh", softplus(op, self, 1, 20)))


@table("gelu")
def gelu(op: Builder, self: Tensor, approximate: str) -> Tensor:
    """gelu(Tensor self, *, str approximate='none') -> Tensor"""
    if runs(op, "Gelu", self.dtype):
        return op.Gelu(self, approximate=approximate)
    if approximate == "tanh":
        cube = compute(op, "Mul", compute(op, "Pow", self, 3.0), 0.044715)
        slope = compute(op, "Tanh", compute(op, "Mul", compute(op, "Add", self, cube), math.sqrt(2 / math.pi)))
    else:
        slope = compute(op, "Erf", compute(op, "Div", self, math.sqrt(2.0)))
    return compute(op, "Mul", compute(op, "Mul", self, compute(op, "Add", slope, 1)), 0.5)


@table("glu")
def glu(op: Builder, self: Tensor, dim: int) -> Tensor:
    """glu(Tensor self, int dim=-1) -> Tensor"""
    axis = axis_of(op, self, dim)
    size = self.shape[axis] if self.shape is not None else None
    if isinstance(size, int):
        value, gate = op.Split(self, [size // 2, size // 2], axis=axis, outputs=2)
    else:
        value, gate = _halves(op, self, axis)
    return compute(op, "Mul", value, compute(op, "Sigmoid", gate))


def _halves(op: Builder, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Split a tensor in the middle of a dynamic axis."""
    size = op.Gather(op.Shape(x), op.constant([axis]), axis=0)
    half = op.Div(size, 2)
    return op.Slice(x, [0], half, [axis]), op.Slice(x, half, size, [axis])


@table("softmax.int", "special_softmax")
def softmax(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return softmax_over(op, "Softmax", _converted(op, self, dtype), axis_of(op, self, dim))


@table("log_softmax.int", "special_log_softmax")
def log_softmax(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    """log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return softmax_over(op, "LogSoftmax", _converted(op, self, dtype), axis_of(op, self, dim))


@table("_softmax")
def softmax_kernel(op: Builder, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return softmax(op, self, dim, torch.float32 if half_to_float else None)


@table("_log_softmax")
def log_softmax_kernel(op: Builder, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return log_softmax(op, self, dim, torch.float32 if half_to_float else None)


def _converted(op: Builder, x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return to_float(op, x) if dtype is None else op.cast(x, dtype)


def softmax_over(op: Builder, name: str, x: Tensor, axis: int) -> Tensor:
    """Apply ``Softmax`` or ``LogSoftmax`` to a float tensor over one axis.

    The axis counts from the front.
    """
    rank = rank_of(op, x)
    if rank == 0:
        return op.Reshape(compute(op, name, op.Reshape(x, [1]), axis=0), [])
    # before opset 13 ONNX flattens everything from the axis on; one helper of many symbolics, so no `since=`
    if op.opset >= 13 or axis == rank - 1:
        return compute(op, name, x, axis=axis)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return op.Transpose(compute(op, name, op.Transpose(x, perm=order), axis=rank - 1), perm=order)


@table("_softmax_backward_data")
def softmax_backward(op: Builder, grad_output: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    parts = compute(op, "Mul", grad_output, output)
    return op.cast(_less_its_sum(op, parts, output, dim), input_dtype)


@table("_log_softmax_backward_data")
def log_softmax_backward(op: Builder, grad_output: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    return op.cast(_less_its_sum(op, grad_output, compute(op, "Exp", output), dim), input_dtype)


def _less_its_sum(op: Builder, x: Tensor, shares: Tensor, dim: int) -> Tensor:
    return compute(op, "Sub", x, compute(op, "Mul", shares, reduced(op, "ReduceSum", x, [dim], True)))
