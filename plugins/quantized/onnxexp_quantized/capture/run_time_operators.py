"""Operators that quantize with parameters computed at run time.

torch's dynamic kernels are one operator each, and torch.export would split what replaces them into reductions and rounding. The
operators here stay whole up to lowering, where each has an ONNX operator or a few of them. Their implementation in floats lets a
trace run them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp_quantized.capture.quantized_tensor import DTYPES, PackedCell, PackedWeight, QuantizedTensor

SMALLEST_SCALE = 6.1e-5
"""torch raises smaller scales to this one."""

_RECURRENT = "(Tensor x, Tensor[] states, Tensor[] weights, Tensor[] scales, Tensor[] zero_points, Tensor[] biases)"
_SCHEMAS = {
    "dynamic_quantize": "(Tensor x, ScalarType dtype, bool reduce_range, bool exact) -> (Tensor, Tensor, Tensor)",
    "linear": "(Tensor x, Tensor scale, Tensor zero_point, Tensor weight, Tensor weight_scale, Tensor weight_zero_point, "
    "Tensor? bias) -> Tensor",
    "widen": "(Tensor weight) -> Tensor",
    "fake_quantize": "(Tensor x, Tensor scale, Tensor zero_point, int? axis, int quant_min, int quant_max) -> Tensor",
    "lstm": f"{_RECURRENT} -> (Tensor, Tensor, Tensor)",
    "gru": f"{_RECURRENT} -> (Tensor, Tensor)",
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


def dynamic_quantize(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool, *, exact: bool = False) -> QuantizedTensor:
    """Quantize a float tensor with the scale of its smallest and largest value.

    `exact` keeps the plugin's option `dynamic="ort"` from using another scale than torch.
    """
    define_operators()
    operator = torch.ops.onnxexp_quantized.dynamic_quantize
    integers, scale, zero_point = operator(x, DTYPES[dtype].dtype, reduce_range, exact)
    return QuantizedTensor(integers, scale, zero_point, dtype)


def integer_linear(x: QuantizedTensor, weight: QuantizedTensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Multiply quantized tensors as integers, and add a float bias."""
    define_operators()
    parameters = _as_tensors(weight, x.device)
    operator = torch.ops.onnxexp_quantized.linear
    result: torch.Tensor = operator(x.integers, x.scale, x.zero_point, weight.integers, *parameters, bias)
    return result


def recurrent_layer(
    name: str, x: torch.Tensor, states: Sequence[torch.Tensor], cells: Sequence[PackedCell]
) -> tuple[torch.Tensor, ...]:
    """Run a time-major layer; there is a cell for each direction."""
    define_operators()
    packed = [each for cell in cells for each in (cell.input, cell.state)]
    half = [each.half for each in packed if each.is_half]
    whole = [each.weight for each in packed if not each.is_half]
    parameters = [_as_tensors(weight, x.device) for weight in whole]
    scales, zero_points = ([pair[index] for pair in parameters] for index in (0, 1))
    biases = [bias for cell in cells for bias in cell.biases]
    operator = getattr(torch.ops.onnxexp_quantized, name)  # by the layer's name
    result: tuple[torch.Tensor, ...] = operator(
        x, list(states), half or [weight.integers for weight in whole], scales, zero_points, biases
    )
    return result


def dequantized(packed: PackedWeight) -> torch.Tensor:
    """Return a weight in float32; the file has the narrow one."""
    return widen(packed.half) if packed.is_half else packed.weight.dequantize()


def _as_tensors(weight: QuantizedTensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale and the zero point of a weight, of the integers' dtype."""
    scale = torch.as_tensor(weight.scale, dtype=torch.float32, device=device)
    return scale, torch.as_tensor(weight.zero_point, device=device).to(weight.integers.dtype)


def fake_quantize(
    x: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, axis: int | None = None
) -> torch.Tensor:
    """Round to the steps of a scale; torch.export lacks ATen's shapes."""
    define_operators()
    factor = torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    zero = zero_point if isinstance(zero_point, torch.Tensor) else torch.tensor(zero_point, dtype=torch.int32, device=x.device)
    result: torch.Tensor = torch.ops.onnxexp_quantized.fake_quantize(x, factor, zero, axis, quant_min, quant_max)
    return result


def widen(weight: torch.Tensor) -> torch.Tensor:
    """Return a float16 weight in float32; the file has the narrow one."""
    define_operators()
    result: torch.Tensor = torch.ops.onnxexp_quantized.widen(weight)
    return result


def integers_used(dtype: torch.dtype, reduce_range: bool) -> tuple[int, int]:
    """Return the first and last integer of a dtype, or of the half of its range.

    `reduce_range` selects the half.
    """
    limits = torch.iinfo(dtype)
    return (-(-limits.min // 2), limits.max // 2) if reduce_range else (limits.min, limits.max)


def _fake_quantize(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int | None, quant_min: int, quant_max: int
) -> torch.Tensor:
    if axis is None:
        return torch.ops.aten.fake_quantize_per_tensor_affine.tensor_qparams(x, scale, zero_point, quant_min, quant_max)
    return torch.ops.aten.fake_quantize_per_channel_affine(x, scale, zero_point, axis, quant_min, quant_max)


def _dynamic_quantize(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool, exact: bool) -> tuple[torch.Tensor, ...]:
    lowest, highest = integers_used(dtype, reduce_range)
    zero = x.new_zeros((1,))
    low, high = torch.cat([x.flatten(), zero]).double().aminmax()
    step = (high - low) / (highest - lowest)
    zero_point = torch.round(lowest - low / step.clamp(min=torch.finfo(torch.float64).tiny))
    scale = step.clamp(min=SMALLEST_SCALE).float()
    limits = torch.iinfo(dtype)
    steps = torch.round(x * scale.reciprocal()) + zero_point.clamp(lowest, highest)
    return steps.clamp(limits.min, limits.max).to(dtype), scale, zero_point.clamp(lowest, highest).to(dtype)


def _dynamic_quantize_shapes(x: torch.Tensor, dtype: torch.dtype, reduce_range: bool, exact: bool) -> tuple[torch.Tensor, ...]:
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


def _recurrent(
    name: str,
    x: torch.Tensor,
    states: list[torch.Tensor],
    weights: list[torch.Tensor],
    scales: list[torch.Tensor],
    zero_points: list[torch.Tensor],
    biases: list[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    floats = [weight.float() for weight in weights]
    for index, (scale, zero_point) in enumerate(zip(scales, zero_points, strict=True)):
        floats[index] = (floats[index] - zero_point.float().reshape(-1, 1)) * scale.reshape(-1, 1)
    pairs = [each for start in range(0, len(floats), 2) for each in (*floats[start : start + 2], *biases[start : start + 2])]
    layer = torch.ops.aten.lstm.input if name == "lstm" else torch.ops.aten.gru.input
    start = states if name == "lstm" else states[0]
    result: tuple[torch.Tensor, ...] = layer(x, start, pairs, bool(biases), 1, 0.0, False, len(weights) == 4, False)
    return result


def _recurrent_shapes(x: torch.Tensor, states: list[torch.Tensor], *rest: Any) -> tuple[torch.Tensor, ...]:
    directions, _, width = states[0].shape
    return x.new_empty((*x.shape[:-1], directions * width)), *(torch.empty_like(state) for state in states)


_IMPLEMENTATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "dynamic_quantize": (_dynamic_quantize, _dynamic_quantize_shapes),
    "linear": (_linear, _linear_shapes),
    "lstm": (functools.partial(_recurrent, "lstm"), _recurrent_shapes),
    "gru": (functools.partial(_recurrent, "gru"), _recurrent_shapes),
    "fake_quantize": (_fake_quantize, lambda x, *rest: torch.empty_like(x)),
    "widen": (torch.Tensor.float, lambda weight: torch.empty_like(weight, dtype=torch.float32)),
}
"""The implementation of each operator, and the function that computes its output's shape."""
