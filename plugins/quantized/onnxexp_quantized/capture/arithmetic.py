"""Arithmetic, comparison and concatenation of quantized tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp_quantized.capture.activation import relu
from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor
from onnxexp_quantized.capture.writing import overwrite

table = FunctionTable()


def _binary(
    function: Callable[..., torch.Tensor], relu: bool, qa: QuantizedTensor, qb: QuantizedTensor, scale: float, zero_point: int
) -> QuantizedTensor:
    """quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"""
    result = function(qa.dequantize(), qb.dequantize())
    return QuantizedTensor.quantize(torch.relu(result) if relu else result, scale, zero_point, qa.dtype)


def _add_scalar(with_relu: bool, qa: QuantizedTensor, b: Any) -> QuantizedTensor:
    """quantized::add_scalar(Tensor qa, Scalar b) -> Tensor qc

    The zero point moves. Where it would leave the dtype's range, it stays at the end, and a larger scale is used. torch applies
    no ReLU where the number is a tensor.
    """
    of, (scale, zero_point) = qa.of, qa.numbers()
    steps = round(_number(b) / scale)
    moved = zero_point - steps
    if of.lowest <= moved <= of.highest:
        result = QuantizedTensor(qa.integers.clone(), scale, moved, qa.dtype)
    else:
        end, other = (of.lowest, of.highest) if moved < of.lowest else (of.highest, of.lowest)
        larger = abs(other - moved) / (of.highest - of.lowest) * scale
        result = QuantizedTensor.quantize(qa.dequantize() + steps * scale, larger, end, qa.dtype)
    return relu(result) if with_relu and not isinstance(b, torch.Tensor) else result


def _mul_scalar(with_relu: bool, qa: QuantizedTensor, b: Any) -> QuantizedTensor:
    """quantized::mul_scalar(Tensor qa, Scalar b) -> Tensor qc

    The scale changes; a negative number also mirrors the integers in their range.
    """
    of, (scale, zero_point), factor = qa.of, qa.numbers(), _number(b)
    if factor == 0:
        return QuantizedTensor(torch.zeros_like(qa.integers), 1.0, 0, qa.dtype)
    if factor > 0:
        result = QuantizedTensor(qa.integers.clone(), scale * factor, zero_point, qa.dtype)
    else:
        ends = of.highest + of.lowest
        result = QuantizedTensor(ends - qa.integers, scale * -factor, ends - zero_point, qa.dtype)
    return relu(result) if with_relu else result


def _number(b: Any) -> float:
    return b.item() if isinstance(b, torch.Tensor) else b


def _arithmetic(
    function: Callable[..., torch.Tensor],
    scalar: Callable[..., QuantizedTensor],
    relu: bool,
    qa: Any,
    qb: Any,
    *rest: Any,
    **named: Any,
) -> QuantizedTensor:
    """quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc

    quantized::add.Scalar(Tensor qa, Scalar b) -> Tensor qc; quantized::add.Scalar2(Scalar b, Tensor qa) -> Tensor qc;
    quantized::add.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out
    """
    values = [*rest, *named.values()]
    written = [each for each in values if isinstance(each, QuantizedTensor)]
    if isinstance(qa, QuantizedTensor) and isinstance(qb, QuantizedTensor):
        parameters = written[0].numbers() if written else values
        result = _binary(function, relu, qa, qb, *parameters)
    else:
        quantized, number = (qa, qb) if isinstance(qa, QuantizedTensor) else (qb, qa)
        result = scalar(relu, quantized, number)
        if relu and scalar is _mul_scalar and _number(number) > 0:
            return result  # torch leaves `out` as it was, in this case only
    return overwrite(written[0], result) if written else result


for _relu, _suffix in ((False, ""), (True, "_relu")):
    for _name, _function, _scalar in (("add", torch.add, _add_scalar), ("mul", torch.mul, _mul_scalar)):
        _partial = functools.partial(_arithmetic, _function, _scalar, _relu)
        table(
            f"quantized::{_name}{_suffix}",
            f"quantized::{_name}{_suffix}_out",
            f"quantized::{_name}_scalar{_suffix}",
            f"quantized::{_name}_scalar{_suffix}_out",
        )(_partial)
table("quantized::matmul")(functools.partial(_binary, torch.matmul, False))


def _cat(with_relu: bool, qx: Any, dim: int, scale: float | None = None, zero_point: int | None = None) -> QuantizedTensor:
    """quantized::cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor"""
    first = qx[0]
    scale, zero_point = first.scale if scale is None else scale, first.zero_point if zero_point is None else zero_point
    if all((each.scale, each.zero_point) == (scale, zero_point) for each in qx):
        result = QuantizedTensor(torch.cat([each.integers for each in qx], dim), scale, zero_point, first.dtype)
        return relu(result) if with_relu else result
    joined = torch.cat([each.dequantize() for each in qx], dim)
    return QuantizedTensor.quantize(torch.relu(joined) if with_relu else joined, scale, zero_point, first.dtype)


def _cat_out(with_relu: bool, qx: Any, dim: int, out: QuantizedTensor) -> QuantizedTensor:
    """quantized::cat_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)"""
    return overwrite(out, _cat(with_relu, qx, dim, *out.numbers()))


table("quantized::cat")(functools.partial(_cat, False))
table("quantized::cat_relu")(functools.partial(_cat, True))
table("quantized::cat_out")(functools.partial(_cat_out, False))
table("quantized::cat_relu_out")(functools.partial(_cat_out, True))


@table("cat", "concat", "concatenate")
def _torch_cat(tensors: Any, dim: int = 0, axis: int | None = None) -> QuantizedTensor:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return _cat(False, tensors, dim if axis is None else axis)


@table("stack")
def _stack(tensors: Any, dim: int = 0) -> QuantizedTensor:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return _cat(False, [each.with_integers(each.integers.unsqueeze(dim)) for each in tensors], dim)


@table("hstack")
def _hstack(tensors: Any) -> QuantizedTensor:
    """hstack(Tensor[] tensors) -> Tensor"""
    return _cat(False, tensors, min(tensors[0].ndim - 1, 1))


@table("vstack")
def _vstack(tensors: Any) -> QuantizedTensor:
    """vstack(Tensor[] tensors) -> Tensor"""
    return _cat(False, [each if each.ndim > 1 else each.with_integers(each.integers.unsqueeze(0)) for each in tensors], 0)


def _compare(func: Callable[..., torch.Tensor], args: Sequence[Any], kwargs: Any) -> torch.Tensor:
    """Compare the numbers for which the integers stand."""
    return func(*(each.dequantize() if isinstance(each, QuantizedTensor) else each for each in args), **kwargs)


table.generic("eq ne lt le gt ge", _compare)
