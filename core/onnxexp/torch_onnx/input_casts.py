"""Casts that torch.onnx inserts after a symbolic is done: ONNX's arithmetic wants one dtype for all its inputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.builder.builder import Builder
from onnxexp.builder.tensor import Tensor

__all__ = ["aligned"]

_ALL = {
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Gemm", "MatMul", "Conv", "Concat", "Min", "Max",
    "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual",
}  # fmt: skip
_FROM = {"Where": 1, "Clip": 0}
"""Operators whose inputs from this one on are of one dtype."""


def aligned(op: Builder, name: str, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the dtype that torch computes with, for the operators that want one; 0-d tensors yield to the others."""
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
    wanted = tensors[0].dtype if name == "Clip" else _promoted(tensors)
    return [op.cast(each, wanted) if index >= start and isinstance(each, Tensor) else each for index, each in enumerate(inputs)]


def _promoted(tensors: Sequence[Tensor]) -> torch.dtype:
    """As torch promotes: a 0-d tensor counts only where it is of a higher kind."""
    groups = [[each.dtype for each in tensors if (each.rank == 0) is scalar] for scalar in (False, True)]
    wide, narrow = (functools.reduce(torch.promote_types, group) if group else None for group in groups)
    if wide is None or narrow is None:
        return wide or narrow or torch.float32
    return wide if _kind(narrow) <= _kind(wide) else narrow


def _kind(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1
