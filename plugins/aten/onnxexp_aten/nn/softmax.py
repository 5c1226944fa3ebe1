"""Softmax, log-softmax and their gradients."""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.arguments import axis_of, rank_of
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.type_promotion import to_float

table = SymbolicTable("aten")


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
