"""Windows for spectra: sums of cosines, and a triangle."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.creation.ranges import arange_of

__all__ = ["table"]

table = SymbolicTable("aten")

_OPTIONS = 4
"""The arguments after a window's own: dtype, layout, device, pin_memory."""
_COSINES = {"hann_window": (0.5, 0.5), "hamming_window": (0.54, 0.46), "blackman_window": (0.42, 0.5, 0.08)}
"""The coefficients of the cosines of 0, 1 and 2 periods; they alternate in sign."""


@table(
    *("hann_window", "hann_window.periodic", "hamming_window", "hamming_window.periodic", "hamming_window.periodic_alpha"),
    *("hamming_window.periodic_alpha_beta", "blackman_window", "blackman_window.periodic", "bartlett_window"),
    "bartlett_window.periodic",
)
def window(op: Builder, window_length: Any, *options: Any) -> Tensor:
    """hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, ...) -> Tensor

    The window of a length that only the run time has; it is computed in float64.
    """
    name = op.node.op.removeprefix("aten::").partition(".")[0]
    periodic, *coefficients = [*options[:-_OPTIONS], True][: max(len(options) - _OPTIONS, 1)]
    if op.is_static(window_length):
        length = int(op.static(window_length))
        return op.constant(getattr(torch, name)(length, periodic, *coefficients, dtype=out_dtype(op)))
    numbers = op.cast(arange_of(op, 0, window_length, 1, torch.int64), torch.float64)
    period = op.cast(window_length if periodic else op.Sub(window_length, 1), torch.float64)
    alone = op.Equal(op.cast(window_length, torch.int64), 1)
    places = op.Div(numbers, op.Where(alone, op.constant(1.0, torch.float64), period))
    shape = _triangle(op, places) if name == "bartlett_window" else _cosines(op, places, name, coefficients)
    return op.cast(op.Where(alone, op.constant(1.0, torch.float64), shape), out_dtype(op))


def _cosines(op: Builder, places: Tensor, name: str, given: list[float]) -> Tensor:
    coefficients = [*given, *_COSINES[name][len(given) :]]
    parts = [
        op.Mul(op.Cos(op.Mul(places, 2 * math.pi * number)), (-1) ** number * coefficient)
        for number, coefficient in enumerate(coefficients)
        if number
    ]
    total = op.Add(parts[0], coefficients[0])
    return op.Add(total, parts[1]) if len(parts) > 1 else total


def _triangle(op: Builder, places: Tensor) -> Tensor:
    return op.Sub(op.constant(1.0, torch.float64), op.Abs(op.Sub(op.Mul(places, 2.0), 1.0)))
