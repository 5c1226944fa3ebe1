"""Casts of an operator's inputs to one dtype, as torch.onnx inserts them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor

_ALL = {
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Gemm", "MatMul", "Conv", "Concat", "Min", "Max",
    "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual",
}  # fmt: skip
"""Operators whose inputs all have one dtype."""
_FROM = {"Where": 1, "Clip": 0}
"""Operators whose inputs from this index on have one dtype."""


def align_dtypes(op: Builder, name: str, inputs: Sequence[Any]) -> list[Any]:
    """Cast the inputs of an operator that takes one dtype to their promoted dtype.

    0-d tensors take the dtype of the others, unless their dtype has a higher category. For Clip, the first input has the dtype.
    """
    start = 0 if name in _ALL else _FROM.get(name)
    if start is None:
        return list(inputs)
    tensors = [each for each in inputs[start:] if isinstance(each, Tensor)]
    for each in tensors:
        if each.known_dtype is None:
            op.infer(each)
    dtypes = {each.known_dtype for each in tensors}
    if len(dtypes) < 2 or None in dtypes:
        return list(inputs)
    common = tensors[0].dtype if name == "Clip" else _promote(tensors)
    return [op.cast(each, common) if index >= start and isinstance(each, Tensor) else each for index, each in enumerate(inputs)]


def _promote(tensors: Sequence[Tensor]) -> torch.dtype:
    """Promote the dtypes of the tensors as torch does.

    A 0-d tensor counts only if its dtype is of a higher category than the others.
    """
    groups = [[each.dtype for each in tensors if (each.rank == 0) is scalar] for scalar in (False, True)]
    dimensioned, scalar = (functools.reduce(torch.promote_types, group) if group else None for group in groups)
    if dimensioned is None or scalar is None:
        return dimensioned or scalar or torch.float32
    return dimensioned if _category(scalar) <= _category(dimensioned) else scalar


def _category(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1
