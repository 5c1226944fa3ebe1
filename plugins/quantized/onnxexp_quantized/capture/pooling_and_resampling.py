"""Pooling, reductions, sorting and resampling of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp_quantized.capture.function_table import FunctionTable
from onnxexp_quantized.capture.layout import on_integers, rounded_again
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

__all__ = ["table"]

table = FunctionTable()

table.generic("max_pool2d max_pool3d topk sort msort argsort max min", on_integers)
table.generic(
    """
    max_pool1d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d mean std
    grid_sample
    """,
    rounded_again,
)


@table("interpolate")
def _interpolate(input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """interpolate(Tensor input, size, scale_factor, mode="nearest", align_corners, recompute_scale_factor, antialias)"""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "nearest")
    if mode.startswith("nearest") and input.integers.dtype == torch.uint8:
        return on_integers(functional.interpolate, (input, *args), kwargs)
    return rounded_again(functional.interpolate, (input, *args), kwargs)  # torch has no kernel for int8, which a trace needs


def _max_pool(pool: Callable[..., torch.Tensor]) -> Callable[..., QuantizedTensor]:
    """A pooling that has its settings one after the other."""

    def implementation(
        qx: QuantizedTensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> QuantizedTensor:
        """quantized::max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) ->
        Tensor"""
        if pool is functional.max_pool1d:  # torch has no kernel for integers, which a trace needs
            return qx.like(pool(qx.dequantize(), kernel_size, stride or None, padding, dilation, ceil_mode))
        return qx.with_integers(pool(qx.integers, kernel_size, stride or None, padding, dilation, ceil_mode))

    return implementation


for _axes, _pool in ((1, functional.max_pool1d), (2, functional.max_pool2d), (3, functional.max_pool3d)):
    table(f"quantized_max_pool{_axes}d", *([f"quantized::max_pool{_axes}d"] if _axes < 3 else []))(_max_pool(_pool))
