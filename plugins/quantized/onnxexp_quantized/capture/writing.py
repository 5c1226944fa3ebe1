"""Writes into quantized tensors, and padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp_quantized.capture.function_table import FunctionTable, GenericImplementation, name_of
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

table = FunctionTable()


def overwrite(target: QuantizedTensor, source: QuantizedTensor) -> QuantizedTensor:
    """Write the integers of one tensor into another, which takes its parameters too."""
    target.integers.copy_(source.integers)
    target.scale, target.zero_point, target.axis = source.scale, source.zero_point, source.axis
    return target


def in_place(implementation: GenericImplementation) -> GenericImplementation:
    """Write the result of an in-place call into the first argument.

    A call is in place if the function's name ends with an underscore, or with ``inplace=True``.
    """

    def implemented(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = dict(kwargs)
        writes = given.pop("inplace", False) or name_of(func).endswith("_")
        target = args[0] if args else given["input"]
        result = implementation(func, args, given)
        return overwrite(target, result) if writes else result

    return implemented


def _as_codes(target: QuantizedTensor, value: Any) -> Any:
    """Return the integers, or one integer, for a value that is written."""
    if isinstance(value, QuantizedTensor):
        return value.integers  # torch copies the integers, even from a tensor of another scale
    return target.like(value).integers if isinstance(value, torch.Tensor) else target.code(value)


@table("copy_")
def _copy(self: QuantizedTensor, src: Any, non_blocking: bool = False) -> QuantizedTensor:
    """copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"""
    return overwrite(self, src if isinstance(src, QuantizedTensor) else self.like(src))


@table("__setitem__")
def _assign(self: QuantizedTensor, index: Any, value: Any) -> None:
    self.integers[index] = _as_codes(self, value)


@table("index_put_", "_index_put_impl_")
def _index_put(
    self: QuantizedTensor, indices: Any, values: torch.Tensor, accumulate: bool = False, unsafe: bool = False
) -> QuantizedTensor:
    """index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)"""
    self.integers.index_put_(indices, self.like(values).integers)
    return self


@table("fill_")
def _fill(self: QuantizedTensor, value: Any) -> QuantizedTensor:
    """fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"""
    self.integers.fill_(_as_codes(self, value))
    return self


@table("full_like")
def _full_like(input: QuantizedTensor, fill_value: float, **_: Any) -> QuantizedTensor:
    """full_like(Tensor self, Scalar fill_value) -> Tensor"""
    return input.with_integers(torch.full_like(input.integers, input.code(fill_value)))


@table("ones_like")
def _ones_like(input: QuantizedTensor, **_: Any) -> QuantizedTensor:
    """ones_like(Tensor self) -> Tensor"""
    return _full_like(input, 1.0)


@table("masked_fill")
def _masked_fill(self: QuantizedTensor, mask: torch.Tensor, value: Any) -> QuantizedTensor:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return self.with_integers(self.integers.masked_fill(mask, _as_codes(self, value)))


@table("masked_fill_")
def _masked_fill_(self: QuantizedTensor, mask: torch.Tensor, value: Any) -> QuantizedTensor:
    """masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)"""
    self.integers.masked_fill_(mask, _as_codes(self, value))
    return self


@table("pad")
def _pad(input: QuantizedTensor, pad: Any, mode: str = "constant", value: float | None = None) -> QuantizedTensor:
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor

    A constant is quantized: without a value it is the zero point.
    """
    if mode == "constant":
        return input.with_integers(torch.nn.functional.pad(input.integers, pad, value=input.code(value or 0.0)))
    return input.like(torch.nn.functional.pad(input.dequantize(), pad, mode))


@table("constant_pad_nd")
def _constant_pad(self: QuantizedTensor, pad: Any, value: float = 0) -> QuantizedTensor:
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    return _pad(self, pad, value=value)
