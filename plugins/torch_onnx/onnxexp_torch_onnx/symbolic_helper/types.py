"""Types and sizes of a symbolic's values, and torch.onnx's tables of types."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp_torch_onnx.enums import TensorProtoDataType
from onnxexp_torch_onnx.scalar_type import JitScalarType
from onnxexp_torch_onnx.symbolic_helper.reading import _is_tensor, _is_value

__all__ = [
    "_get_dim_for_cross",
    "_get_tensor_dim_size",
    "_get_tensor_rank",
    "_get_tensor_sizes",
    "_is_bool",
    "_is_fp",
    "_maybe_cast_to_type",
    "_try_get_scalar_type",
    "_type_promote_from_values",
    "args_have_same_dtype",
    "cast_pytorch_to_onnx",
    "is_complex_value",
    "pytorch_name_to_type",
    "scalar_name_to_pytorch",
    "scalar_type_to_onnx",
    "scalar_type_to_pytorch_type",
]

_UNDEFINED = JitScalarType.UNDEFINED
_LISTED = [each for each in JitScalarType if each <= JitScalarType.BFLOAT16]

cast_pytorch_to_onnx = {each.scalar_name(): each.onnx_type() for each in JitScalarType if not each.scalar_name().startswith("Q")}
"""ONNX's element types by the JIT's names: ``g.op("Cast", x, to_i=cast_pytorch_to_onnx["Long"])``."""
scalar_name_to_pytorch = {each.torch_name(): each.scalar_name() for each in JitScalarType if each is not _UNDEFINED}
scalar_type_to_pytorch_type = [each.dtype() for each in _LISTED]
"""torch's dtypes by the scalar type's number, which a `dtype` argument is."""
pytorch_name_to_type = {each.scalar_name(): each.dtype() for each in JitScalarType if each is not _UNDEFINED}
scalar_type_to_onnx = [
    TensorProtoDataType.UNDEFINED if each.scalar_name().startswith("ComplexHalf") else each.onnx_type() for each in _LISTED
]
"""ONNX's element types by the scalar type's number."""


def _get_tensor_rank(x: Any) -> int | None:
    """Return the rank, or None if it is unknown."""
    rank: int | None = x.type().dim() if _is_tensor(x) else None
    return rank


def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> list[int | None] | None:
    """Return the sizes, with None for each dynamic one.

    Returns None if the rank is unknown, or if a size is dynamic without `allow_nonstatic`.
    """
    if not _is_tensor(x):
        return None
    sizes: list[int | None] | None = x.type().varyingSizes() if allow_nonstatic else x.type().sizes()
    return sizes


def _get_tensor_dim_size(x: Any, dim: int) -> int | None:
    """Return one size, or None if it is dynamic or unknown."""
    sizes = _get_tensor_sizes(x)
    return sizes[dim] if sizes else None


def _get_dim_for_cross(x: Any, dim: int | None) -> int | None:
    """Return the axis of torch.cross, by default the first of size 3."""
    if dim == -1:
        rank = _get_tensor_rank(x)
        return dim if rank is None else dim + rank
    if dim is None:
        return next((index for index, size in enumerate(_get_tensor_sizes(x) or ()) if size == 3), None)
    return dim


def _try_get_scalar_type(*args: Any) -> JitScalarType | None:
    """Find the first known scalar type of the arguments."""
    found = (JitScalarType.from_value(arg, _UNDEFINED) for arg in args)
    return next((each for each in found if each is not _UNDEFINED), None)


def _type_promote_from_values(*args: Any) -> JitScalarType:
    """Promote the known scalar types as torch does, or return UNDEFINED."""
    known = [each for each in map(_try_get_scalar_type, args) if each is not None]
    if not known:
        return _UNDEFINED
    dtype = known[0].dtype()
    for each in known[1:]:
        dtype = torch.promote_types(dtype, each.dtype())
    return JitScalarType.from_dtype(dtype)


def _maybe_cast_to_type(g: Any, value: Any, jit_type: JitScalarType) -> Any:
    """Cast the value to a scalar type, unless it has that type."""
    if JitScalarType.from_value(value, _UNDEFINED) == jit_type:
        return value
    return g.op("Cast", value, to_i=jit_type.onnx_type())


def _is_fp(value: Any) -> bool:
    """Return whether the value has a floating-point type."""
    found = JitScalarType.from_value(value, _UNDEFINED)
    return found is not _UNDEFINED and found.dtype().is_floating_point


def _is_bool(value: Any) -> bool:
    return JitScalarType.from_value(value, _UNDEFINED) is JitScalarType.BOOL


def is_complex_value(x: Any) -> bool:
    if not _is_value(x):
        raise TypeError(f"{x!r} is not a value of a graph")
    found = JitScalarType.from_value(x, _UNDEFINED)
    return found is not _UNDEFINED and found.dtype().is_complex


def args_have_same_dtype(args: Any) -> bool:
    """Return whether all arguments have the same scalar type."""
    found = {JitScalarType.from_value(arg, _UNDEFINED) for arg in args}
    return len(found) <= 1
