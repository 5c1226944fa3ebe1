"""The names of ``torch.onnx._type_utils``."""

from __future__ import annotations

from onnxexp_torch_onnx.scalar_type import JitScalarType

__all__ = ["JitScalarType", "valid_scalar_name", "valid_torch_name"]


def valid_scalar_name(scalar_name: str) -> bool:
    """Return whether the JIT has a scalar type of this name, such as Float."""
    return any(each.scalar_name() == scalar_name for each in JitScalarType)


def valid_torch_name(torch_name: str) -> bool:
    """Return whether C++ has a scalar type of this name, such as float."""
    return any(each.torch_name() == torch_name for each in JitScalarType)
