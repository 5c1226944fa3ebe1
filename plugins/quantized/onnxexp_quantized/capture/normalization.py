"""Normalizations of quantized tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

table = FunctionTable()


def _batch_norm(
    relu: bool,
    qx: QuantizedTensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    var: torch.Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> QuantizedTensor:
    """quantized::batch_norm(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float output_scale, int
    output_zero_point) -> Tensor"""
    result = functional.batch_norm(qx.dequantize(), mean, var, weight, bias, eps=eps)
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, output_scale, output_zero_point, qx.dtype)


for _axes in ("", "1d", "2d", "3d"):
    table(f"quantized::batch_norm{_axes}")(functools.partial(_batch_norm, False))
    table(f"quantized::batch_norm{_axes}_relu")(functools.partial(_batch_norm, True))
table("quantized_batch_norm")(functools.partial(_batch_norm, False))


def _norm(function: Callable[..., torch.Tensor], input: QuantizedTensor, *settings: Any, **named: Any) -> QuantizedTensor:
    """quantized::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, float output_scale, int
    output_zero_point) -> Tensor"""
    *values, scale, zero_point = [*settings, *named.values()]
    return QuantizedTensor.quantize(function(input.dequantize(), *values), scale, zero_point, input.dtype)


def _instance_norm(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return functional.instance_norm(x, weight=weight, bias=bias, eps=eps)


table("quantized::layer_norm")(functools.partial(_norm, functional.layer_norm))
table("quantized::group_norm")(functools.partial(_norm, functional.group_norm))
table("quantized::instance_norm")(functools.partial(_norm, _instance_norm))
