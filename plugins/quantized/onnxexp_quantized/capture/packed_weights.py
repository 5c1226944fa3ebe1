"""Unpack the packed parameters of quantized modules into buffers.

A packed parameter is an object of C++ (`torch.ScriptObject`) that no frontend can look into. During a capture a `PackedWeight`
takes its place. The weight, its scales and zero points, and the bias become buffers of the module.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp_quantized.capture.quantized_tensor import PackedCell, PackedWeight, QuantizedTensor

_CONVOLUTION = ("stride", "padding", "dilation", "groups", "transpose", "output_padding")


def is_packed(value: Any) -> bool:
    """Return whether a value is the packed parameters of a layer."""
    return isinstance(value, torch.ScriptObject) and (_has(value, "unpack") or _is_cell(value))


def _is_cell(packed: Any) -> bool:
    """Return whether an object is a recurrent layer's parameters for one direction."""
    return bool(packed._type().name() == "CellParamsBase")


def unpack(owner: torch.nn.Module, prefix: str, packed: Any) -> AbstractContextManager[PackedWeight | PackedCell]:
    """Store the unpacked parameters as buffers of a module while the context lasts."""
    if _is_cell(packed):
        return _unpack_cell(owner, prefix, packed)
    return (_unpack_table if _has(packed, "bit_rate") else _unpack_layer)(owner, prefix, packed)


@contextlib.contextmanager
def _unpack_cell(owner: torch.nn.Module, prefix: str, packed: Any) -> Iterator[PackedCell]:
    """Unpack both layers of a recurrent one."""
    (kind, _, _, numbers, (of_input, of_state)), _ = packed.__getstate__()
    with _unpack_layer(owner, f"{prefix}ih_", of_input) as one, _unpack_layer(owner, f"{prefix}hh_", of_state) as other:
        yield PackedCell(kind, one, other, reduce_range=bool(numbers and numbers[0]))


@contextlib.contextmanager
def _unpack_table(owner: torch.nn.Module, prefix: str, packed: Any) -> Iterator[PackedWeight]:
    """Unpack the table of an embedding; one of 4 bits has two codes in a byte."""
    quantized = as_stand_in(packed.unpack())
    if _method(packed, "bit_rate")() == 4:
        if quantized.integers.numel() * 2 % len(quantized.scale):
            raise CaptureError("a 4-bit embedding of an odd size has rows that share a byte; to fix this, make the size even")
        quantized.integers = quantized.integers.reshape(len(quantized.scale), -1)
        # torch's kernel has the scale, and the value of code 0, in float16.
        shift = (-quantized.zero_point * quantized.scale).half().float()
        quantized.scale = quantized.scale.half().float()
        quantized.zero_point = -shift / quantized.scale
    names = ("weight", "weight_scale", "weight_zero_point")
    tensors = (quantized.integers, quantized.scale, quantized.zero_point)
    added = {f"{prefix}{name}": tensor for name, tensor in zip(names, tensors, strict=True)}
    owner._buffers.update(added)
    try:
        yield PackedWeight(owner, prefix, quantized, {})
    finally:
        for name in added:
            del owner._buffers[name]


@contextlib.contextmanager
def _unpack_layer(owner: torch.nn.Module, prefix: str, packed: Any) -> Iterator[PackedWeight]:
    weight, bias = packed.unpack()
    quantized = as_stand_in(weight) if weight.is_quantized else None
    # QNNPACK allocates the bias itself. torch 2.13 aborts the process when it frees a lazy clone of such memory.
    tensors: dict[str, torch.Tensor | None] = {"bias": None if bias is None else bias.detach().clone()}
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
    """Return the stand-in for a real quantized tensor."""
    integers = tensor.int_repr().contiguous()
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return QuantizedTensor(integers, tensor.q_scale(), tensor.q_zero_point(), tensor.dtype)
    scales = tensor.q_per_channel_scales().to(torch.float32)
    zero_points = tensor.q_per_channel_zero_points()
    return QuantizedTensor(integers, scales, zero_points, tensor.dtype, tensor.q_per_channel_axis())


def _settings(packed: Any) -> dict[str, Any]:
    """Return the settings of a convolution, as torch's functions name them."""
    if not _has(packed, "stride"):
        return {}
    settings = {name: _method(packed, name)() for name in _CONVOLUTION if _has(packed, name)}
    if not settings.setdefault("transpose", False):
        settings.pop("output_padding", None)
    return {name: bool(value) if name == "transpose" else value for name, value in settings.items()}


def _reduces_range(packed: Any, weight: torch.Tensor, settings: dict[str, Any]) -> bool:
    """Return whether the kernel follows `reduce_range`, by running it.

    The packed object does not name its engine."""
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
