"""torch's scalar types and their names in the JIT, C++ and ONNX."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import torch

from onnxexp.rewriting import onnx_dtype
from onnxexp_torch_onnx.enums import TensorProtoDataType
from onnxexp_torch_onnx.errors import OnnxExporterError, SymbolicValueError


class JitScalarType(enum.IntEnum):
    """A scalar type, whose value is torch.onnx's number for it.

    ``JitScalarType.from_value(x).onnx_type()`` is the element type for ``g.op("Cast", ..., to_i=...)``.
    """

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    FLOAT8E5M2 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E5M2FNUZ = 18
    FLOAT8E4M3FNUZ = 19
    UNDEFINED = 20

    @classmethod
    def from_dtype(cls, dtype: torch.dtype | None) -> JitScalarType:
        """Find the scalar type of a torch dtype.

        Raises OnnxExporterError if the dtype has no scalar type.
        """
        if dtype not in _BY_DTYPE:
            raise OnnxExporterError(f"there is no scalar type for {dtype}")
        return _BY_DTYPE[dtype]

    @classmethod
    def from_onnx_type(cls, onnx_type: Any) -> JitScalarType:
        """Find the scalar type of an ONNX element type.

        Raises OnnxExporterError if the element type has no scalar type.
        """
        number = None if onnx_type is None else int(onnx_type)
        if number not in _BY_ONNX:
            raise OnnxExporterError(f"there is no scalar type for the ONNX type {onnx_type}")
        return _BY_ONNX[number]

    @classmethod
    def from_name(cls, name: str | None) -> JitScalarType:
        """Find the scalar type with a name in the JIT (Float) or C++ (float, int64_t).

        Raises OnnxExporterError if no scalar type has the name.
        """
        for scalar_type, description in _DESCRIPTIONS.items():
            if name in (description.jit_name, description.cpp_name):
                return scalar_type
        raise OnnxExporterError(f"there is no scalar type called {name!r}")

    _from_name = from_name

    @classmethod
    def from_value(cls, value: Any, default: JitScalarType | None = None) -> JitScalarType:
        """Find the scalar type of a tensor or of a value of a graph.

        Returns `default` for a value without a scalar type. Raises OnnxExporterError if `default` is None.
        """
        if isinstance(value, torch.Tensor):
            return cls.from_dtype(value.dtype)
        if isinstance(value, torch._C.Value):
            type_: Any = value.type()
            while isinstance(type_, (torch._C.ListType, torch._C.OptionalType)):
                type_ = type_.getElementType()
            if isinstance(type_, torch._C.TensorType):
                found = _BY_DTYPE.get(type_.dtype())
            else:
                found = _BY_JIT_TYPE.get(str(type_))
            if found is not None:
                return found
        if default is not None:
            return default
        if isinstance(value, torch._C.Value):
            raise SymbolicValueError("the scalar type of a value is not known, and no default is given", value)
        raise OnnxExporterError(f"{value!r} is neither a value of a graph nor a tensor, and no default is given")

    def scalar_name(self) -> str:
        """Return the name in the JIT, such as ``Float``."""
        return _DESCRIPTIONS[self].jit_name

    def torch_name(self) -> str:
        """Return the name in C++, such as ``int64_t``."""
        return _DESCRIPTIONS[self].cpp_name

    def dtype(self) -> torch.dtype:
        """Return the torch dtype.

        Raises OnnxExporterError for UNDEFINED.
        """
        dtype = _DESCRIPTIONS[self].dtype
        if dtype is None:
            raise OnnxExporterError("the scalar type is undefined")
        return dtype

    def onnx_type(self) -> TensorProtoDataType:
        """Return the ONNX element type, for a quantized type that of its storage."""
        dtype = _STORED.get(self) or _DESCRIPTIONS[self].dtype
        if dtype is None or self is JitScalarType.COMPLEX32:
            return TensorProtoDataType.UNDEFINED
        return TensorProtoDataType(int(onnx_dtype(dtype)))

    def onnx_compatible(self) -> bool:
        """Return whether ONNX has this type."""
        return self.onnx_type() is not TensorProtoDataType.UNDEFINED


class _Description(NamedTuple):
    """The names of a scalar type in the JIT and in C++, and its dtype."""

    jit_name: str
    cpp_name: str
    dtype: torch.dtype | None


_DESCRIPTIONS: dict[JitScalarType, _Description] = {
    JitScalarType.UINT8: _Description("Byte", "uint8_t", torch.uint8),
    JitScalarType.INT8: _Description("Char", "int8_t", torch.int8),
    JitScalarType.INT16: _Description("Short", "int16_t", torch.int16),
    JitScalarType.INT: _Description("Int", "int", torch.int32),
    JitScalarType.INT64: _Description("Long", "int64_t", torch.int64),
    JitScalarType.HALF: _Description("Half", "half", torch.float16),
    JitScalarType.FLOAT: _Description("Float", "float", torch.float32),
    JitScalarType.DOUBLE: _Description("Double", "double", torch.float64),
    JitScalarType.COMPLEX32: _Description("ComplexHalf", "complex32", torch.complex32),
    JitScalarType.COMPLEX64: _Description("ComplexFloat", "complex64", torch.complex64),
    JitScalarType.COMPLEX128: _Description("ComplexDouble", "complex128", torch.complex128),
    JitScalarType.BOOL: _Description("Bool", "bool", torch.bool),
    JitScalarType.QINT8: _Description("QInt8", "qint8", torch.qint8),
    JitScalarType.QUINT8: _Description("QUInt8", "quint8", torch.quint8),
    JitScalarType.QINT32: _Description("QInt32", "qint32", torch.qint32),
    JitScalarType.BFLOAT16: _Description("BFloat16", "bfloat16", torch.bfloat16),
    JitScalarType.FLOAT8E5M2: _Description("Float8E5M2", "float8_e5m2", torch.float8_e5m2),
    JitScalarType.FLOAT8E4M3FN: _Description("Float8E4M3FN", "float8_e4m3fn", torch.float8_e4m3fn),
    JitScalarType.FLOAT8E5M2FNUZ: _Description("Float8E5M2FNUZ", "float8_e5m2fnuz", torch.float8_e5m2fnuz),
    JitScalarType.FLOAT8E4M3FNUZ: _Description("Float8E4M3FNUZ", "float8_e4m3fnuz", torch.float8_e4m3fnuz),
    JitScalarType.UNDEFINED: _Description("Undefined", "undefined", None),
}
_STORED = {JitScalarType.QINT8: torch.int8, JitScalarType.QUINT8: torch.uint8, JitScalarType.QINT32: torch.int32}
_BY_DTYPE: dict[torch.dtype | None, JitScalarType] = {
    description.dtype: scalar_type for scalar_type, description in _DESCRIPTIONS.items() if description.dtype is not None
}
_BY_ONNX = {int(each.onnx_type()): each for each in _DESCRIPTIONS if each not in _STORED and each is not JitScalarType.COMPLEX32}
_BY_JIT_TYPE = {"int": JitScalarType.INT64, "float": JitScalarType.DOUBLE, "bool": JitScalarType.BOOL}
