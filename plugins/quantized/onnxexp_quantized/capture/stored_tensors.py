"""Quantized tensors that a module stores: their integers become buffers.

A capture treats buffers as parts of the model and keeps their names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnxexp_quantized.capture.packed_weights import as_stand_in
from onnxexp_quantized.capture.quantized_tensor import BY_INTEGERS, QuantizedTensor


def _field(suffix: str) -> Any:
    """Return a property in a buffer of the module, or beside it if it is a number."""

    def read(self: _StoredTensor) -> Any:
        return self.numbers_by_suffix.get(suffix, self.buffers.get(f"{self.name}{suffix}"))

    def write(self: _StoredTensor, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.buffers[f"{self.name}{suffix}"] = value
        else:
            self.numbers_by_suffix[suffix] = value

    return property(read, write)


class _StoredTensor(QuantizedTensor):
    """A quantized tensor that reads the buffers of its module at each use."""

    integers = _field("")
    scale = _field("_scale")
    zero_point = _field("_zero_point")

    def __init__(self, module: torch.nn.Module, name: str, tensor: QuantizedTensor) -> None:
        self.buffers: dict[str, torch.Tensor | None] = module._buffers
        self.name = name
        self.numbers_by_suffix: dict[str, Any] = {}
        super().__init__(tensor.integers, tensor.scale, tensor.zero_point, tensor.dtype, tensor.axis)


@contextlib.contextmanager
def stored(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> Iterator[None]:
    """Store the integers of a module's quantized tensor as its buffers."""
    with _restored(module._parameters, module._buffers):
        module._parameters.pop(name, None)
        with _attributes(module, {name: _StoredTensor(module, name, as_stand_in(tensor))}):
            yield


@contextlib.contextmanager
def quantized_weight(module: torch.nn.Module) -> Iterator[None]:
    """Quantize the float weight that a reference module quantizes in each call."""
    from torch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule

    schemes = (torch.per_tensor_affine, torch.per_channel_affine)
    if not isinstance(module, ReferenceQuantizedModule) or module.weight_qscheme not in schemes:
        yield
        return
    with torch.no_grad():
        weight = module.get_quantized_weight()  # type: ignore[no-untyped-call]  # torch's, which has no annotations
    if weight.is_quantized:
        quantized = as_stand_in(weight)
    else:
        axis = None if module.weight_qscheme == torch.per_tensor_affine else module.weight_axis_int
        quantized = QuantizedTensor(weight, module.weight_scale, module.weight_zero_point, BY_INTEGERS[weight.dtype], axis)
    with _restored(module._parameters, module._buffers):
        del module._parameters["weight"]
        tensor = _StoredTensor(module, "weight", quantized)
        with _attributes(module, {"get_quantized_weight": lambda: tensor, "get_weight": lambda: tensor.dequantize()}):
            yield


@contextlib.contextmanager
def _attributes(module: torch.nn.Module, values: dict[str, Any]) -> Iterator[None]:
    """Set attributes that may have the names of buffers."""
    attributes = vars(module)
    before = {name: attributes[name] for name in values if name in attributes}
    attributes.update(values)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                attributes[name] = before[name]
            else:
                del attributes[name]


@contextlib.contextmanager
def _restored(*tables: dict[str, Any]) -> Iterator[None]:
    """Restore the entries of dictionaries, and their order."""
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, entries in zip(tables, before, strict=True):
            table.clear()
            table.update(entries)
