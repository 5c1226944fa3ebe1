"""Convert between torch dtypes and ONNX element types."""

from __future__ import annotations

import contextlib
import functools

import onnx_ir as ir
import torch

_STRINGS = {"FLOAT": "float", "DOUBLE": "double"}


@functools.lru_cache(maxsize=None)
def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    """Return the ONNX element type of a torch dtype.

    Raises TypeError if quantized or packed.
    """
    with contextlib.suppress(TypeError):
        found = ir.tensor_adapters.from_torch_dtype(dtype)
        if found.bitwidth >= 8:
            return found
    raise TypeError(f"ONNX has no element type for {dtype}")


@functools.lru_cache(maxsize=None)
def torch_dtype(data_type: ir.DataType | int) -> torch.dtype:
    """Return the torch dtype of an ONNX type.

    Raises TypeError for strings and packed types.
    """
    onnx_type = ir.DataType(data_type)
    with contextlib.suppress(TypeError):
        if onnx_type.bitwidth >= 8:
            return ir.tensor_adapters.to_torch_dtype(onnx_type)
    raise TypeError(f"torch has no dtype for ONNX's {onnx_type.name}")


@functools.lru_cache(maxsize=None)
def type_string(dtype: torch.dtype) -> str:
    """Return a dtype as operator schemas write it: ``tensor(float)``."""
    return type_text(ir.TensorType(onnx_dtype(dtype)))


def type_text(type_: ir.TypeProtocol) -> str:
    """Any ONNX type as operator schemas write it: ``optional(seq(tensor(float)))``."""
    if isinstance(type_, ir.SequenceType):
        return f"seq({type_text(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({type_text(type_.elem_type)})"
    name = ir.DataType(type_.dtype).name
    return f"tensor({_STRINGS.get(name, name.lower())})"


def dtype_of_number(value: bool | int | float | complex) -> torch.dtype:
    """torch's default dtype for a Python number: bool, int64, float32 or complex64."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int):
        return torch.int64
    return torch.float32 if isinstance(value, float) else torch.complex64
