"""Dropout: identity in evaluation, random zeros and scaling in training."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.random.uniform_and_normal import dropout_in_training, kept_or_zero, uniform_of
from onnxexp_aten.support.constant_of_shape import sizes_like
from onnxexp_aten.support.kernel_dtypes import compare, compute, runs
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.type_promotion import to_float

table = SymbolicTable("aten")


@table("dropout")
def dropout(op: Builder, input: Tensor, p: Any, train: bool) -> Tensor:
    """dropout(Tensor input, float p, bool train) -> Tensor"""
    return dropped(op, input, p)[0] if op.static(train, "train") else input


@table("native_dropout")
def native_dropout(op: Builder, input: Tensor, p: Any, train: bool | None) -> tuple[Tensor, Tensor]:
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor); the second is the mask of kept elements"""
    if op.static(train, "train") is False:
        return input, op.Expand(op.constant(True), op.Shape(input))
    return dropped(op, input, p)


@table("native_dropout_backward")
def native_dropout_backward(op: Builder, grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor"""
    grad = to_float(op, grad_output)
    return compute(op, "Mul", grad, compute(op, "Mul", op.cast(mask, grad.dtype), scale))


@table("feature_dropout")
def feature_dropout(op: Builder, input: Tensor, p: Any, train: bool) -> Tensor:
    """feature_dropout(Tensor input, float p, bool train) -> Tensor; drops whole channels"""
    ratio = float(op.static(p, "p"))
    if not op.static(train, "train") or ratio == 0:
        return input
    if ratio == 1:
        return compute(op, "Mul", input, 0)
    kept = _kept(op, input, ratio, channels=True)
    return compute(op, "Mul", input, _factor(op, kept, input.dtype, ratio))


@table("alpha_dropout")
def alpha_dropout(op: Builder, input: Tensor, p: Any, train: bool) -> Tensor:
    """alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _alpha(op, input, op.static(p, "p"), channels=False) if op.static(train, "train") else input


@table("feature_alpha_dropout")
def feature_alpha_dropout(op: Builder, input: Tensor, p: Any, train: bool) -> Tensor:
    """feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor; drops whole channels"""
    return _alpha(op, input, op.static(p, "p"), channels=True) if op.static(train, "train") else input


def dropped(op: Builder, x: Tensor, p: Any) -> tuple[Tensor, Tensor]:
    """Drop elements as in training; return the result and the mask of kept elements."""
    ratio = float(op.static(p, "p"))
    if ratio == 1:
        return compute(op, "Mul", x, 0), op.Expand(op.constant(False), op.Shape(x))
    if runs(op, "Dropout", x.dtype):
        result, kept = dropout_in_training(op, x, ratio)
        return kept_or_zero(op, result, kept), kept
    kept = _kept(op, x, ratio)
    return compute(op, "Mul", x, _factor(op, kept, x.dtype, ratio)), kept


def _factor(op: Builder, kept: Tensor, dtype: torch.dtype, ratio: float) -> Tensor:
    return compute(op, "Div", op.cast(kept, dtype), 1 - ratio)


def _kept(op: Builder, x: Tensor, ratio: float, *, channels: bool = False) -> Tensor:
    """Draw a random mask that is True with probability 1 - ratio.

    It has the shape of `x`, or of its batch and channel axes alone.
    """
    sizes = [size_at(op, x, axis) if axis < 2 else 1 for axis in range(rank_of(op, x))] if channels else []
    noise = uniform_of(op, sizes if channels else sizes_like(op, x), torch.float32)
    return op.Not(compare(op, "Less", noise, ratio))


def _alpha(op: Builder, x: Tensor, p: float, *, channels: bool) -> Tensor:
    """Apply alpha dropout: dropped elements become SELU's negative saturation value.

    An affine map keeps mean and variance.
    """
    if p == 0:
        return x
    if p == 1:
        return compute(op, "Mul", x, 0)
    saturation = -1.7580993408473766
    scale = 1.0 / ((saturation**2 * p + 1) * (1 - p)) ** 0.5
    value = select(op, _kept(op, x, p, channels=channels), x, op.constant(saturation, x.dtype))
    return compute(op, "Add", compute(op, "Mul", value, scale), -saturation * p * scale)
