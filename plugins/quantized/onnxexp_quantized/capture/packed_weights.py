"""Unpack the packed parameters of quantized modules into buffers.

A packed parameter is an object of C++ (`torch.ScriptObject`) that no frontend can look into. During a capture a `PackedWeight`
takes its place. The weight, its scales and zero points, and the bias become buffers of the module.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp_quantized.capture.quantized_tensor import PackedWeight, QuantizedTensor

__all__ = ["is_packed", "unpack"]

_CONVOLUTION = ("stride", "padding", "dilation", "groups", "transpose", "output_padding")


def is_packed(value: Any) -> bool:
    """Whether a value is the packed parameters of a convolution or a linear layer."""
    return isinstance(value, torch.ScriptObject) and _has(value, "unpack")


@contextlib.contextmanager
def unpack(owner: torch.nn.Module, prefix: str, packed: Any) -> Iterator[PackedWeight]:
    """Store the unpacked parameters as buffers of a module while the context lasts."""
    weight, bias = packed.unpack()
    quantized = as_stand_in(weight) if weight.is_quantized else None
    tensors: dict[str, torch.Tensor | None] = {"bias": None if bias is None else bias.detach()}
    tensors["weight"] = weight.half() if quantized is None else quantized.integers
    if quantized is not None and quantized.axis is not None:
        tensors |= {"weight_scale": quantized.scale, "weight_zero_point": quantized.zero_point}
    added = {f"{prefix}{name}": tensor for name, tensor in tensors.items() if tensor is not None}
    owner._buffers.update(added)
    settings = _settings(packed)
    try:
        yield PackedWeight(owner, prefix, quantized, settings, quantized is not None and _reduces_range(packed, weight, settings))
    finally:
        for name in added:
            del owner._buffers[name]


def as_stand_in(tensor: torch.Tensor) -> QuantizedTensor:
    """The stand-in for a real quantized tensor."""
    integers = tensor.int_repr().contiguous()
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return QuantizedTensor(integers, tensor.q_scale(), tensor.q_zero_point(), tensor.dtype)
    scales = tensor.q_per_channel_scales().to(torch.float32)
    zero_points = tensor.q_per_channel_zero_points()
    return QuantizedTensor(integers, scales, zero_points, tensor.dtype, tensor.q_per_channel_axis())


def _settings(packed: Any) -> dict[str, Any]:
    """The settings of a convolution, as torch's functions name them."""
    if not _has(packed, "stride"):
        return {}
    settings = {name: _method(packed, name)() for name in _CONVOLUTION if _has(packed, name)}
    if not settings.setdefault("transpose", False):
        settings.pop("output_padding", None)
    return {name: bool(value) if name == "transpose" else value for name, value in settings.items()}


def _reduces_range(packed: Any, weight: torch.Tensor, settings: dict[str, Any]) -> bool:
    """Whether the kernel follows `reduce_range`: the object does not name its engine."""
    if settings:
        channels = weight.shape[0] if settings["transpose"] else weight.shape[1] * settings["groups"]
        kernel = weight.shape[2:]
        sizes = [1, channels, *(step * (size - 1) + 1 for step, size in zip(settings["dilation"], kernel, strict=True))]
        operator = f"conv{'_transpose' if settings['transpose'] else ''}{len(kernel)}d_dynamic"
    else:
        sizes, operator = [1, weight.shape[1]], "linear_dynamic"
    x = torch.linspace(0, 1, math.prod(sizes)).reshape(sizes)
    run = getattr(torch.ops.quantized, operator)  # by the layer's name
    try:
        return not torch.equal(run(x, packed, True), run(x, packed, False))
    except RuntimeError:  # the engine has no such kernel, so that nobody calls it
        return True


def _has(packed: Any, name: str) -> bool:
    return bool(packed._has_method(name))


def _method(packed: Any, name: str) -> Callable[[], Any]:
    method: Callable[[], Any] = packed._get_method(name)
    return method
