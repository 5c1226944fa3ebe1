"""Uniform and normal random numbers, the source of all distributions.

ONNX Runtime has no kernels for ONNX's random operators from opset 22 on. It has one for Dropout, whose mask is a vector of coin
tosses. 64 of them seed a generator for as many numbers as are needed.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import runs, targets_plain_onnx


def drawn_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which a distribution is computed: float32 or float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def uniform_of(op: Builder, sizes: Any, dtype: torch.dtype, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Draw uniform numbers in [low, high).

    `sizes` is a list of ints and tensors, or a tensor.
    """
    inner = dtype if dtype == torch.float64 or runs(op, "RandomUniform", dtype) else torch.float32
    if runs(op, "RandomUniform", inner):
        return op.cast(_generated(op, "RandomUniform", sizes, inner, low=low, high=high), dtype)
    digits = _digits(op, sizes, inner)
    stretched = digits if high - low == 1 else op.Mul(digits, high - low)
    return op.cast(stretched if low == 0 else op.Add(stretched, low), dtype)


def gaussian(op: Builder, sizes: Any, dtype: torch.dtype, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Draw normal random numbers; `sizes` is as for `uniform_of`."""
    inner = dtype if dtype == torch.float64 or runs(op, "RandomNormal", dtype) else torch.float32
    if runs(op, "RandomNormal", inner):
        return op.cast(_generated(op, "RandomNormal", sizes, inner, mean=mean, scale=std), dtype)
    # Box-Muller: a random angle, and a radius from the logarithm of a random number
    pair = _digits(op, op.Concat([2], sizes, axis=0) if isinstance(sizes, Tensor) else [2, *sizes], inner)
    angle = op.Cos(op.Mul(op.Gather(pair, 0, axis=0), 2 * math.pi))
    radius = op.Sqrt(op.Mul(op.Log(op.Sub(op.constant(1.0, inner), op.Gather(pair, 1, axis=0))), -2.0))
    drawn = op.Mul(radius, angle)
    if (mean, std) != (0.0, 1.0):
        drawn = op.Add(op.Mul(drawn, std), mean)
    return op.cast(drawn, dtype)


def dropout_in_training(op: Builder, x: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
    """Emit Dropout in training mode: the result and the mask of kept elements.

    `runs` must be True for Dropout.
    """
    result, kept = op.Dropout(x, ratio, True, outputs=2)
    return result, kept


def kept_or_zero(op: Builder, result: Tensor, kept: Tensor) -> Tensor:
    """Guard a `dropout_in_training` result against an ONNX Runtime optimization.

    ONNX Runtime removes a Dropout without users of its mask, in training mode too.
    """
    return result if targets_plain_onnx(op) else select(op, kept, result, op.constant(0, result.dtype))


def _generated(op: Builder, name: str, sizes: Any, dtype: torch.dtype, **attributes: Any) -> Tensor:
    if not isinstance(sizes, Tensor) and all(isinstance(size, int) for size in sizes) and sizes:
        return op.call("", name, shape=list(sizes), dtype=dtype, **attributes)
    shell = filled(op, sizes, 0, dtype)
    return op.call("", f"{name}Like", shell, dtype=dtype, **attributes)


def _digits(op: Builder, sizes: Any, dtype: torch.dtype) -> Tensor:
    """Draw uniform numbers in [0, 1), with all binary digits of the dtype.

    Only the seed of a draw is tossed. It is mixed with each element's position by splitmix64 (Steele). Coin tosses alone
    would show that ONNX Runtime seeds consecutive Dropouts with consecutive numbers.
    """
    _, heads = dropout_in_training(op, op.constant(torch.ones(64)), 0.5)
    seed = op.MatMul(op.cast(heads, torch.uint64), op.constant([1 << digit for digit in range(64)], torch.uint64))
    size = math.prod(sizes) if op.is_static(sizes) and not isinstance(sizes, Tensor) else op.ReduceProd(sizes, keepdims=0)
    places = op.cast(op.Range(0, size, 1), torch.uint64)
    mixed = op.Add(op.Mul(places, _number(op, 0x9E3779B97F4A7C15)), seed)
    mixed = op.Mul(_folded(op, mixed, 30), _number(op, 0xBF58476D1CE4E5B9))
    mixed = op.Mul(_folded(op, mixed, 27), _number(op, 0x94D049BB133111EB))
    count = 53 if dtype == torch.float64 else 24
    digits = op.BitShift(_folded(op, mixed, 31), _number(op, 64 - count), direction="RIGHT")
    return op.Reshape(op.Mul(op.cast(digits, dtype), 0.5**count), sizes)


def _folded(op: Builder, bits: Tensor, places: int) -> Tensor:
    return op.BitwiseXor(bits, op.BitShift(bits, _number(op, places), direction="RIGHT"))


def _number(op: Builder, number: int) -> Tensor:
    return op.constant(number, torch.uint64)
