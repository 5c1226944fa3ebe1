"""Initializers: their sizes, their ranges, and histograms of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxexp.checking import type_text

_BINS = 24
_SAMPLE = 1 << 16
"""Elements of a tensor that are looked at; larger ones are read at even distances."""


def weight_rows(values: Sequence[ir.Value]) -> list[dict[str, Any]]:
    """One row for each initializer.

    Name, dtype, shape, bytes, and the statistics of its numbers.
    """
    return [_row(value) for value in values]


def _row(value: ir.Value) -> dict[str, Any]:
    tensor = value.const_value
    assert tensor is not None
    row = {"n": value.name, "d": type_text(tensor.dtype), "s": list(tensor.shape.numpy()), "b": tensor.nbytes}
    return {**row, **_statistics(tensor)}


def _statistics(tensor: ir.TensorProtocol) -> dict[str, Any]:
    if tensor.dtype == ir.DataType.STRING or tensor.size == 0:
        return {}
    sample = _sample(tensor.numpy()).astype(np.float64).reshape(-1)
    finite = sample[np.isfinite(sample)]
    if finite.size == 0:
        return {"nan": int(sample.size)}
    low, high = float(finite.min()), float(finite.max())
    bins = ((finite - low) / ((high - low) or 1.0) * _BINS).clip(0, _BINS - 1).astype(np.int64)
    counts = np.bincount(bins, minlength=_BINS)
    return {
        "lo": low, "hi": high, "mu": float(finite.mean()), "sd": float(finite.std()),
        "h": counts.tolist(), "nan": int(sample.size - finite.size),
    }  # fmt: skip


def _sample(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a part of a large array, at even distances along its longest axes.

    It is a view, so that nothing large is copied.
    """
    while array.size > _SAMPLE:
        longest = int(np.argmax(array.shape))
        step = max(2, min(array.size // _SAMPLE, array.shape[longest] // 16))
        array = array[tuple(slice(None, None, step if axis == longest else 1) for axis in range(array.ndim))]
    return array
