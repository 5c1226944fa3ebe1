"""Replace what is quantized in a model by stand-ins while it is captured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnxexp.capture.torch_state import replace_attributes
from onnxexp_quantized.capture import dynamic, parameters, recurrent
from onnxexp_quantized.capture.packed_weights import as_stand_in, is_packed, unpack

__all__ = ["is_quantized", "stand_ins"]

_FUNCTIONS = [
    (torch, "quantize_per_tensor", parameters.quantize_per_tensor),
    (torch, "quantize_per_channel", parameters.quantize_per_channel),
    (torch, "quantize_per_tensor_dynamic", dynamic.quantize_per_tensor_dynamic),
    (torch, "_make_per_tensor_quantized_tensor", parameters.make_per_tensor),
    (torch, "_make_per_channel_quantized_tensor", parameters.make_per_channel),
    (torch, "quantized_lstm", recurrent.lstm),
    (torch, "quantized_gru", recurrent.gru),
]
"""The functions that make quantized tensors of others."""


def is_quantized(model: Any) -> bool:
    """Whether a model has quantized modules, tensors or packed parameters."""
    return isinstance(model, torch.nn.Module) and any(
        type(module).__module__.startswith("torch.ao.nn.quantized")
        or any(is_packed(value) or _is_quantized_tensor(value) for value in _attributes(module))
        for module in model.modules()
    )


@contextlib.contextmanager
def stand_ins(model: torch.nn.Module) -> Iterator[None]:
    """Replace packed parameters, quantized tensors, and scales that are buffers."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers quantized_decomposed's operators

    with contextlib.ExitStack() as stack:
        for parent in list(model.modules()):
            for path, module in [("", parent), *parent.named_children()]:
                if path and not type(module).__name__.endswith("PackedParams"):
                    continue
                stack.enter_context(_patched(parent, module))
        stack.enter_context(replace_attributes(_FUNCTIONS))
        yield


@contextlib.contextmanager
def _patched(owner: torch.nn.Module, module: torch.nn.Module) -> Iterator[None]:
    """Replace the attributes of one module; new buffers belong to `owner`."""
    with contextlib.ExitStack() as stack:
        for name, value in list(vars(module).items()):
            if is_packed(value):
                prefix = "" if name == "_packed_params" else f"{name}_"
                packed = stack.enter_context(unpack(owner, prefix, value))
                stack.enter_context(replace_attributes([(module, name, packed)]))
        numbers = {name: _number(buffer) for name, buffer in module._buffers.items() if _is_parameter(module, name)}
        tensors = {
            name: as_stand_in(value) for name, value in module._buffers.items() if value is not None and value.is_quantized
        }
        for name, value in (numbers | tensors).items():
            stack.enter_context(_as_attribute(module, name, value))
        yield


@contextlib.contextmanager
def _as_attribute(module: torch.nn.Module, name: str, value: Any) -> Iterator[None]:
    """Turn a buffer into an attribute."""
    order, buffer = list(module._buffers), module._buffers.pop(name)
    vars(module)[name] = value
    try:
        yield
    finally:
        del vars(module)[name]
        module._buffers[name] = buffer
        module._buffers.update({each: module._buffers.pop(each) for each in order})


def _is_parameter(module: torch.nn.Module, name: str) -> bool:
    """Whether a buffer is a scale or zero point that operators take as a number."""
    buffer = module._buffers[name]
    if buffer is None or buffer.numel() != 1:
        return False
    if type(module).__module__.startswith("torch.ao.nn.quantized") and name in ("scale", "zero_point"):
        return True
    return isinstance(module, torch.fx.GraphModule) and any(
        user.op == "call_function" and "quantize" in str(user.target)
        for node in module.graph.nodes
        if node.op == "get_attr" and node.target == name
        for user in node.users
    )


def _number(buffer: torch.Tensor | None) -> int | float:
    assert buffer is not None
    return buffer.item()


def _is_quantized_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


def _attributes(module: torch.nn.Module) -> Iterator[Any]:
    yield from vars(module).values()
    yield from module._buffers.values()
    yield from module._parameters.values()
