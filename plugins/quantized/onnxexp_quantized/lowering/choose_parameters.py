"""Scales and zero points that are computed from the tensor at run time."""

from __future__ import annotations

import torch

from onnxexp import Builder, SymbolicTable, Tensor

table = SymbolicTable("quantized_decomposed")


@table("choose_qparams.tensor")
def choose_qparams(
    op: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""
    lowest, highest = _range(op, input)
    scale, zero_point = scale_and_zero_point(op, lowest, highest, quant_min, quant_max, eps)
    return _vector(op, scale, torch.float64), _vector(op, zero_point, torch.int64)


@table("choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    op: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor,
    Tensor)"""
    largest = op.ReduceMax(op.Abs(op.cast(input, torch.float32)), keepdims=0)
    scale = op.Max(op.Div(largest, (quant_max - quant_min) / 2), eps)
    middle = 128 if dtype == torch.uint8 else 0
    return _vector(op, scale, torch.float64), op.constant([middle], torch.int64)


@table("choose_qparams_per_token")
def choose_qparams_per_token(op: Builder, input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    largest = op.ReduceMax(op.Abs(op.cast(input, torch.float32)), axes=[-1], keepdims=1)
    scale = op.Div(op.Max(largest, 1e-5), 127.0)
    return op.cast(scale, torch.float64), op.cast(op.Mul(scale, 0.0), torch.int64)


@table("choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl")
def choose_qparams_per_token_asymmetric(op: Builder, input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)

    The zero point is computed from the end of the range that it represents better.
    """
    lowest, highest = _range(op, input, axes=[-1], keepdims=1)
    scale = op.Max(op.Div(op.Sub(highest, lowest), 255.0), torch.finfo(torch.float32).eps)
    from_lowest, from_highest = op.Div(lowest, scale), op.Div(highest, scale)
    below = op.Greater(op.Add(op.Add(from_lowest, -128.0), op.Add(from_highest, 127.0)), 0.0)
    zero_point = op.Where(below, op.Sub(-128.0, from_lowest), op.Sub(127.0, from_highest))
    (rounded,) = op.torch_op("aten::round", op.Clip(zero_point, -128.0, 127.0))
    return op.cast(scale, torch.float64), op.cast(rounded, torch.int64)


def scale_and_zero_point(
    op: Builder, lowest: Tensor, highest: Tensor, quant_min: int, quant_max: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Compute the scale and zero point, in float32, of ranges that include 0."""
    scale = op.Max(op.Div(op.Sub(highest, lowest), float(quant_max - quant_min)), eps)
    (steps,) = op.torch_op("aten::round", op.Div(lowest, scale))
    return scale, op.Clip(op.Sub(float(quant_min), steps), float(quant_min), float(quant_max))


def _range(op: Builder, x: Tensor, **reduction: object) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest element, or 0 where that is beyond it."""
    x = op.cast(x, torch.float32)
    given = reduction or {"keepdims": 0}
    return op.Min(op.ReduceMin(x, **given), 0.0), op.Max(op.ReduceMax(x, **given), 0.0)


def _vector(op: Builder, number: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a 0-d tensor as a vector of one element."""
    vector = op.Reshape(op.cast(number, dtype), [1])
    assert isinstance(vector, Tensor)
    return vector
