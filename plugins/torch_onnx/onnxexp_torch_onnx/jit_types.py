"""Conversion between torch's JIT types and those of the captured graph."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Tensor
from onnxexp.graph import ScalarType, TensorType

NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}
"""dtypes of Python numbers in a JIT graph.

A float is a double there, as in torch.onnx's graphs; the builder's constants are float32.
"""


def tensor_type(dtype: torch.dtype | None, sizes: Any) -> Any:
    """Build a JIT type, such as ``Float(*, 3)``.

    `sizes` is None if the rank is unknown. A symbolic size becomes ``*``.
    """
    jit: Any = torch._C
    if dtype is None:
        made = jit.TensorType.get()
        return made if sizes is None else made.with_sizes(_numbers(sizes))
    made = jit.TensorType.create_from_tensor(torch.empty(0))  # on the CPU, without gradient
    return made.with_dtype(dtype).with_sizes(None if sizes is None else _numbers(sizes))


def _numbers(sizes: Any) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in sizes]


def jit_type(type_: TensorType | ScalarType) -> Any:
    """Convert a captured type to a JIT type.

    A number becomes a 0-d tensor, as in torch.onnx, which erases number types.
    """
    if isinstance(type_, ScalarType):
        return tensor_type(NUMBERS[type_.kind], ())
    return tensor_type(type_.dtype, type_.sizes)


def type_of_tensor(tensor: Tensor) -> Any:
    """Convert the type of a builder's Tensor to a JIT type."""
    return jit_type(ScalarType(tensor.scalar) if tensor.scalar else TensorType(tensor.known_dtype, tensor.shape))


def type_of(value: Any) -> TensorType:
    """Read the dtype and sizes of a JIT value.

    The sizes are None unless all of them are known.
    """
    type_ = value.type()
    if not type_.isSubtypeOf(torch._C.TensorType.get()) or not isinstance(type_, torch._C.TensorType):
        return TensorType(None, None)
    sizes = type_.varyingSizes()
    known = None if sizes is None else tuple(size for size in sizes if size is not None)
    return TensorType(type_.dtype(), known if known is not None and len(known) == len(sizes or ()) else None)


def list_type(elements: list[Any]) -> Any:
    """Build the JIT type of a list of these Python constants and Tensors."""
    jit: Any = torch._C
    if any(isinstance(element, Tensor) and not element.scalar for element in elements):
        return jit.ListType(jit.TensorType.get())
    kinds = {element.scalar if isinstance(element, Tensor) else type(element) for element in elements}
    element = jit.FloatType if float in kinds else jit.BoolType if kinds == {bool} else jit.IntType
    return jit.ListType(element.get())
