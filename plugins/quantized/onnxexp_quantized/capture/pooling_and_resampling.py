"""Pooling, reductions, sorting and resampling of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

from onnxexp_quantized.capture.function_table import FunctionTable, name_of
from onnxexp_quantized.capture.layout import first_of, on_integers, rounded_again
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

table = FunctionTable()

table.generic("topk sort msort argsort max min", on_integers)
# a trace calls torch's kernels, and those of max pooling take uint8 images of up to 255 pixels only
table.generic("max_pool1d max_pool2d max_pool3d std grid_sample grid_sampler", rounded_again)


def _averaged(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Average the integers themselves, since torch rounds the mean of the integers.

    A mean is often halfway between two integers. Multiplying by a scale would round it to either side.
    """
    source = first_of((args, kwargs))
    padding = kwargs.get("padding", args[3] if "avg_pool" in name_of(func) and len(args) > 3 else 0)
    padded = any(padding) if isinstance(padding, (list, tuple)) else bool(padding)
    plain = QuantizedTensor(source.integers, 1.0, source.zero_point if padded else 0, source.dtype)
    given, named = pytree.tree_map_only(QuantizedTensor, lambda _: plain, (tuple(args), dict(kwargs)))
    return source.with_integers(rounded_again(func, given, named).integers)


table.generic(
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d mean",
    _averaged,
)


@table("interpolate")
def _interpolate(input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """interpolate(Tensor input, size, scale_factor, mode="nearest", align_corners, recompute_scale_factor, antialias)"""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "nearest")
    if mode.startswith("nearest") and input.integers.dtype == torch.uint8:
        return on_integers(functional.interpolate, (input, *args), kwargs)
    return _averaged(functional.interpolate, (input, *args), kwargs)  # torch has no nearest kernel for int8, which a trace needs


def _resampled(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Resample by one of the operators that TorchScript has for `interpolate`."""
    nearest = "nearest" in name_of(func) and first_of((args, kwargs)).integers.dtype == torch.uint8
    return (on_integers if nearest else _averaged)(func, args, kwargs)


table.generic(
    "upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bilinear2d", _resampled
)


def _max_pool(pool: Callable[..., torch.Tensor]) -> Callable[..., QuantizedTensor]:
    """Return a pooling that has its settings one after the other."""

    def implementation(
        qx: QuantizedTensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> QuantizedTensor:
        """quantized::max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) ->
        Tensor"""
        return qx.like(pool(qx.dequantize(), kernel_size, stride or None, padding, dilation, ceil_mode))

    return implementation


for _axes, _pool in ((1, functional.max_pool1d), (2, functional.max_pool2d), (3, functional.max_pool3d)):
    table(f"quantized_max_pool{_axes}d", *([f"quantized::max_pool{_axes}d"] if _axes < 3 else []))(_max_pool(_pool))
