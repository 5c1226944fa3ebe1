"""Operators that quantize with parameters computed at run time.

torch's dynamic kernels are one operator each, and torch.export would split what replaces them into reductions and rounding. The
operators here stay whole up to lowering, where each has an ONNX operator or a few of them. Their implementation in floats lets a
trace run them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp_quantized.capture.quantized_tensor import DTYPES, QuantizedTensor

__all__ = ["SMALLEST_SCALE", "define_operators", "dynamic_quantize", "integer_linear", "integers_used", "widen"]

SMALLEST_SCALE = 6.1e-5
"""torch raises smaller scales to this one."""

_SCHEMAS = {
    "dynamic_quantize": "(Tensor x, ScalarType dtype, bool reduce_range) -> (Tensor, Tensor, Tensor)",
    "linear": "(Tensor x, Tensor scale, Tensor zero_point, Tensor weight, Tensor weight_scale, Tensor weight_zero_point, "
    "Tensor? bias) -> Tensor",
    "widen": "(Tensor weight) -> Tensor",
}


@functools.cache
def define_operators() -> Any:
    """Define the operators, once per process."""
    library: Any = torch.library.Library("onnxexp_quantized", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, (kernel, shapes) in _IMPLEMENTATIONS.items():
        library.define(f"{name}{_SCHEMAS[name]}")
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"onnxexp_quantized::{name}", shapes, lib=library)
    return library


def dynamic_quantize(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool) -> QuantizedTensor:
    """Quantize a float tensor with the scale of its smallest and largest value."""
    define_operators()
    integers, scale, zero_point = torch.ops.onnxexp_quantized.dynamic_quantize(x, DTYPES[dtype].dtype, reduce_range)
    return QuantizedTensor(integers, scale, zero_point, dtype)


def integer_linear(x: QuantizedTensor, weight: QuantizedTensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Multiply quantized tensors as integers, and add a float bias."""
    define_operators()
    device = x.integers.device
    scale, zero_point = torch.as_tensor(weight.scale, dtype=torch.float32, device=device), torch.as_tensor(weight.zero_point)
    operator = torch.ops.onnxexp_quantized.linear
    result: torch.Tensor = operator(x.integers, x.scale, x.zero_point, weight.integers, scale, zero_point.to(torch.int8), bias)
    return result


def widen(weight: torch.Tensor) -> torch.Tensor:
    """A float16 weight in float32; the file has the narrow one."""
    define_operators()
    result: torch.Tensor = torch.ops.onnxexp_quantized.widen(weight)
    return result


def integers_used(dtype: torch.dtype, reduce_range: bool) -> tuple[int, int]:
    """The first and last integer of a range; a reduced one has half of the integers."""
    limits = torch.iinfo(dtype)
    return (-(-limits.min // 2), limits.max // 2) if reduce_range else (limits.min, limits.max)


def _dynamic_quantize(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool) -> tuple[torch.Tensor, ...]:
    lowest, highest = integers_used(dtype, reduce_range)
    zero = x.new_zeros((1,))
    low, high = torch.cat([x.flatten(), zero]).double().aminmax()
    exact = (high - low) / (highest - lowest)
    zero_point = torch.round(lowest - low / exact.clamp(min=torch.finfo(torch.float64).tiny))
    scale = exact.clamp(min=SMALLEST_SCALE).float()
    limits = torch.iinfo(dtype)
    steps = torch.round(x * scale.reciprocal()) + zero_point.clamp(lowest, highest)
    return steps.clamp(limits.min, limits.max).to(dtype), scale, zero_point.clamp(lowest, highest).to(dtype)


def _dynamic_quantize_shapes(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(x, dtype=dtype), x.new_empty((), dtype=torch.float32), x.new_empty((), dtype=dtype)


def _linear(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero_point: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    exact = (x.float() - zero_point.float()) @ (weight.float() - weight_zero_point.float().reshape(-1, 1)).T
    result = exact * (scale * weight_scale)
    return result if bias is None else result + bias


def _linear_shapes(x: torch.Tensor, scale: Any, zero_point: Any, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=torch.float32)


_IMPLEMENTATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "dynamic_quantize": (_dynamic_quantize, _dynamic_quantize_shapes),
    "linear": (_linear, _linear_shapes),
    "widen": (torch.Tensor.float, lambda weight: torch.empty_like(weight, dtype=torch.float32)),
}
"""The implementation of each operator, and the function that computes its output's shape."""
