"""Arithmetic and matrix products of quantized tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

__all__ = ["table"]

table = FunctionTable()


def _binary(
    function: Callable[..., torch.Tensor], relu: bool, qa: QuantizedTensor, qb: QuantizedTensor, scale: float, zero_point: int
) -> QuantizedTensor:
    """quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"""
    result = function(qa.dequantize(), qb.dequantize())
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, scale, zero_point, qa.dtype)


table("quantized::add")(functools.partial(_binary, torch.add, False))
table("quantized::add_relu")(functools.partial(_binary, torch.add, True))
table("quantized::mul")(functools.partial(_binary, torch.mul, False))
table("quantized::mul_relu")(functools.partial(_binary, torch.mul, True))
table("quantized::matmul")(functools.partial(_binary, torch.matmul, False))


@table("quantized::cat")
def _cat(qx: Any, dim: int, scale: float | None = None, zero_point: int | None = None) -> QuantizedTensor:
    """quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor"""
    first = qx[0]
    scale, zero_point = first.scale if scale is None else scale, first.zero_point if zero_point is None else zero_point
    if all((each.scale, each.zero_point) == (scale, zero_point) for each in qx):
        return QuantizedTensor(torch.cat([each.integers for each in qx], dim), scale, zero_point, first.dtype)
    return QuantizedTensor.quantize(torch.cat([each.dequantize() for each in qx], dim), scale, zero_point, first.dtype)


@table("cat")
def _torch_cat(tensors: Any, dim: int = 0) -> QuantizedTensor:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return _cat(tensors, dim)
