"""Casts of an operator's inputs to one dtype, as torch.onnx inserts them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor

_ONE_DTYPE = {
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Gemm", "MatMul", "Conv", "Concat", "Min", "Max",
    "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual",
}  # fmt: skip
"""Operators whose inputs all have one dtype."""
_ONE_DTYPE_FROM = {"Where": 1, "Clip": 0}
"""Operators whose inputs from this index on have one dtype."""


def align_dtypes(op: Builder, name: str, inputs: Sequence[Any]) -> list[Any]:
    """Cast the inputs of an operator that takes one dtype to their promoted dtype.

    0-d tensors take the dtype of the others, unless their dtype has a higher category. For Clip, the first input has the dtype.
    """
    start = 0 if name in _ONE_DTYPE else _ONE_DTYPE_FROM.get(name)
    if start is None:
        return list(inputs)
    tensors = [value for value in inputs[start:] if isinstance(value, Tensor)]
    for tensor in tensors:
        if tensor.known_dtype is None:
            op.infer(tensor)
    dtypes = {tensor.known_dtype for tensor in tensors}
    if len(dtypes) < 2 or None in dtypes:
        return list(inputs)
    common = tensors[0].dtype if name == "Clip" else _promote(tensors)
    return [*inputs[:start], *(op.cast(value, common) if isinstance(value, Tensor) else value for value in inputs[start:])]


def _promote(tensors: Sequence[Tensor]) -> torch.dtype:
    """Promote the dtypes of the tensors as torch does.

    A 0-d tensor counts only if its dtype is of a higher category than the others.
    """
    scalars = [tensor.dtype for tensor in tensors if tensor.rank == 0]
    others = [tensor.dtype for tensor in tensors if tensor.rank != 0]
    if not scalars or not others:
        return functools.reduce(torch.promote_types, scalars or others)
    scalar, other = functools.reduce(torch.promote_types, scalars), functools.reduce(torch.promote_types, others)
    return other if _category(scalar) <= _category(other) else scalar


def _category(dtype: torch.dtype) -> int:
    """Return a dtype's place in the order bool, integer, floating, complex."""
    if dtype == torch.bool:
        return 0
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 1
