"""Convert between torch dtypes and ONNX element types."""

from __future__ import annotations

import functools

import onnx_ir as ir
import torch

__all__ = ["from_onnx", "of_python", "to_onnx", "type_string", "type_text"]

_PAIRS: dict[torch.dtype, ir.DataType] = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.bool: ir.DataType.BOOL,
    torch.complex64: ir.DataType.COMPLEX64,
    torch.complex128: ir.DataType.COMPLEX128,
}
_BACK = {onnx_type: dtype for dtype, onnx_type in _PAIRS.items()}
_STRINGS = {"FLOAT": "float", "DOUBLE": "double"}


def to_onnx(dtype: torch.dtype) -> ir.DataType:
    """The ONNX element type of a torch dtype. Raises TypeError if quantized."""
    try:
        return _PAIRS[dtype]
    except KeyError:
        raise TypeError(f"ONNX has no element type for {dtype}") from None


def from_onnx(data_type: ir.DataType | int) -> torch.dtype:
    """The torch dtype of an ONNX type. Raises TypeError for strings and 4-bit types."""
    try:
        return _BACK[ir.DataType(data_type)]
    except KeyError:
        raise TypeError(f"torch has no dtype for ONNX's {ir.DataType(data_type).name}") from None


@functools.lru_cache(maxsize=None)
def type_string(dtype: torch.dtype) -> str:
    """A dtype as operator schemas write it: ``tensor(float)``."""
    return type_text(ir.TensorType(to_onnx(dtype)))


def type_text(type_: ir.TypeProtocol) -> str:
    """Any ONNX type as operator schemas write it: ``optional(seq(tensor(float)))``."""
    if isinstance(type_, ir.SequenceType):
        return f"seq({type_text(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({type_text(type_.elem_type)})"
    name = ir.DataType(type_.dtype).name
    return f"tensor({_STRINGS.get(name, name.lower())})"


def of_python(value: bool | int | float | complex) -> torch.dtype:
    """torch's default dtype for a Python number: bool, int64, float32 or complex64."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int):
        return torch.int64
    return torch.float32 if isinstance(value, float) else torch.complex64
