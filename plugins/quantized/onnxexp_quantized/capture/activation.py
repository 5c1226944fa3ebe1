"""Activations of quantized tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from onnxexp import CaptureError
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.layout import rounded_again
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor
from onnxexp_quantized.capture.writing import in_place, overwrite

table = FunctionTable()


def relu(x: QuantizedTensor) -> QuantizedTensor:
    """Replace the integers below the zero point by it."""
    if isinstance(x.zero_point, torch.Tensor):
        return x.with_integers(torch.maximum(x.integers, x.zero_point.to(x.integers.dtype)))
    if x.zero_point <= x.of.lowest:
        return x.with_integers(x.integers.clone())
    return x.with_integers(torch.clamp(x.integers, min=x.zero_point))


def _clamp(x: QuantizedTensor, low: float | None, high: float | None) -> QuantizedTensor:
    """Limit the numbers, which is the same as to limit the integers."""
    if isinstance(x.scale, torch.Tensor):
        return x.like(torch.clamp(x.dequantize(), low, high))
    limits = (None if each is None else x.code(each) for each in (low, high))
    return x.with_integers(torch.clamp(x.integers, *limits))


def _implement(names: str, function: Callable[..., QuantizedTensor]) -> None:
    """Register an activation that has a form in place."""

    def implementation(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> QuantizedTensor:
        return function(*args, **kwargs)

    table.generic(names, in_place(implementation))


def _hardtanh(input: QuantizedTensor, min_val: float = -1.0, max_val: float = 1.0) -> QuantizedTensor:
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    return _clamp(input, min_val, max_val)


def _torch_clamp(input: QuantizedTensor, min: float | None = None, max: float | None = None) -> QuantizedTensor:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamp(input, min, max)


def _relu6(input: QuantizedTensor) -> QuantizedTensor:
    """relu6(Tensor self) -> Tensor"""
    return _clamp(input, 0.0, 6.0)


_implement("relu relu_", lambda input: relu(input))
_implement("hardtanh hardtanh_", _hardtanh)
_implement("relu6", _relu6)
_implement("clamp clip quantized::clamp", _torch_clamp)
table.generic("leaky_relu leaky_relu_ prelu _prelu_kernel gelu gelu_ threshold _threshold", in_place(rounded_again))


@table("quantized::relu6")
def _quantized_relu6(qx: QuantizedTensor, inplace: bool = False) -> QuantizedTensor:
    """quantized::relu6(Tensor qx, bool inplace=False) -> Tensor"""
    return overwrite(qx, _relu6(qx)) if inplace else _relu6(qx)


@table("quantized::threshold")
def _threshold(qx: QuantizedTensor, threshold: float, value: float) -> QuantizedTensor:
    """quantized::threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy"""
    return qx.like(functional.threshold(qx.dequantize(), threshold, value))


def _fixed(function: Callable[..., torch.Tensor], steps: int, center: int) -> Callable[..., QuantizedTensor]:
    """Return an activation whose results have fixed parameters.

    `steps` is the number of quanta in 1, and `center` the zero point's distance from the lowest integer.
    """

    def activation(input: QuantizedTensor) -> QuantizedTensor:
        return QuantizedTensor.quantize(function(input.dequantize()), 1 / steps, input.of.lowest + center, input.dtype)

    return activation


_implement("sigmoid", _fixed(torch.sigmoid, 256, 0))
_implement("hardsigmoid hardsigmoid_", _fixed(functional.hardsigmoid, 256, 0))
_implement("tanh", _fixed(torch.tanh, 128, 128))


def _with_parameters(
    function: Callable[..., torch.Tensor], x: QuantizedTensor, scale: float, zero_point: int, *settings: Any, **named: Any
) -> QuantizedTensor:
    """quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor"""
    return QuantizedTensor.quantize(function(x.dequantize(), *settings, **named), scale, zero_point, x.dtype)


def _elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    return torch.ops.aten.elu(x, alpha, scale, input_scale)


table("quantized::hardswish")(functools.partial(_with_parameters, functional.hardswish))
table("quantized::elu")(functools.partial(_with_parameters, _elu))
table("quantized::celu")(functools.partial(_with_parameters, functional.celu))
table("quantized::sigmoid")(functools.partial(_with_parameters, torch.sigmoid))


@table("quantized::leaky_relu")
def _leaky_relu(
    qx: QuantizedTensor, negative_slope: float, inplace: bool, output_scale: float, output_zero_point: int
) -> QuantizedTensor:
    """quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point) ->
    Tensor

    torch writes nothing in place here.
    """
    return _with_parameters(functional.leaky_relu, qx, output_scale, output_zero_point, negative_slope)


@table("quantized::softmax")
def _softmax(qx: QuantizedTensor, dim: int, output_scale: float, output_zero_point: int) -> QuantizedTensor:
    """quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor"""
    return _with_parameters(torch.softmax, qx, output_scale, output_zero_point, dim)


@table("quantized::prelu")
def _quantized_prelu(qx: QuantizedTensor, weight: Any, output_scale: float, output_zero_point: int) -> QuantizedTensor:
    """quantized::prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor"""
    return _with_parameters(torch.prelu, qx, output_scale, output_zero_point, weight.dequantize())


@table("dropout", "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
def _dropout(input: QuantizedTensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> QuantizedTensor:
    """dropout(Tensor input, float p, bool train) -> Tensor

    Raises CaptureError for a dropout in training mode, as torch does.
    """
    if training:
        raise CaptureError("a quantized tensor reaches a dropout that is in training mode; to fix this, call model.eval()")
    return input


@table("quantized::dropout")
def _quantized_dropout(self: QuantizedTensor, output_scale: float, output_zero_point: int, *_: Any, **__: Any) -> QuantizedTensor:
    """quantized::dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, bool training=False) -> Tensor"""
    return self
