"""Windows of signal processing, of any length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.support.kernel_dtypes import compute

table = SymbolicTable("aten")


def _cosines(op: Builder, places: Tensor, *weights: float) -> Tensor:
    """Compute weights[0] - weights[1] * cos(2 pi p) + weights[2] * cos(4 pi p)."""
    result: Any = weights[0]
    for order, weight in enumerate(weights[1:], 1):
        wave = compute(op, "Cos", op.Mul(places, 2 * math.pi * order))
        result = op.Add(op.Mul(wave, weight * (-1) ** order), result)
    return result


def _hamming(op: Builder, places: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return _cosines(op, places, alpha, beta)


def _bartlett(op: Builder, places: Tensor) -> Tensor:
    return op.Sub(1.0, op.Abs(op.Sub(op.Mul(places, 2.0), 1.0)))


def _kaiser(op: Builder, places: Tensor, beta: float = 12.0) -> Tensor:
    ahead = op.Sub(op.Mul(places, 2.0), 1.0)
    inner = op.Mul(op.Sqrt(op.Sub(1.0, op.Mul(ahead, ahead))), beta)
    return op.Div(op.torch_op("aten::i0", inner)[0], float(torch.i0(torch.tensor(beta, dtype=torch.float64))))


_SHAPES: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "bartlett": _bartlett,
        "blackman": lambda op, places: _cosines(op, places, 0.42, 0.5, 0.08),
        "hamming": _hamming,
        "hann": lambda op, places: _cosines(op, places, 0.5, 0.5),
        "kaiser": _kaiser,
    }
)
"""The heights of a window at places from 0 to 1."""
WINDOWS = tuple(f"{name}_window" for name in _SHAPES)
"""The functions of torch."""


@table(
    *(f"{name}{overload}" for name in WINDOWS for overload in ("", ".periodic")),
    *("hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta", "kaiser_window.beta"),
)
def window(op: Builder, window_length: Any, *given: Any) -> Tensor:
    """hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, ...) -> Tensor

    Other windows and overloads have parameters after `periodic`. A window of length 1 is 1.
    """
    name, dtype = op.node.op.removeprefix("aten::").partition(".")[0], out_dtype(op)
    periodic, *parameters = given[:-4] or (True,)
    if op.is_static(window_length):
        make = getattr(torch, name)  # by the operator's name
        return op.constant(make(op.static(window_length), periodic, *parameters, dtype=dtype))
    numbers = arange_of(op, 0, window_length, 1, torch.int64)
    gaps = window_length if periodic else op.Sub(window_length, op.cast(op.Greater(window_length, 1), torch.int64))
    inner = torch.float64 if dtype == torch.float64 else torch.float32
    places = op.Div(op.cast(numbers, inner), op.cast(gaps, inner))
    heights = _SHAPES[name.removesuffix("_window")](op, places, *parameters)
    return op.cast(op.Where(op.Equal(window_length, 1), op.constant(1, inner), heights), dtype)
