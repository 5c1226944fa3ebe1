"""Tensors full of one number, by ConstantOfShape or Expand."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.support.kernel_dtypes import runs
from onnxexp_aten.support.tensor_sizes import vector

MAX_TABLE = 4096
"""Elements up to which a table is stored in the model, not computed by it."""


def filled(op: Builder, sizes: Any, value: bool | int | float, dtype: torch.dtype) -> Tensor:
    """Build a tensor full of one number known at export.

    `sizes` is a list of ints and tensors, or a 1-D tensor.
    """
    if not runs(op, "ConstantOfShape", dtype):
        return op.cast(filled(op, sizes, value, torch.float32), dtype)
    number = torch.tensor([value], dtype=dtype)
    return op.ConstantOfShape(sizes if isinstance(sizes, Tensor) else op.constant(vector(op, sizes), torch.int64), value=number)


def full_of(op: Builder, sizes: Any, value: Any, dtype: torch.dtype) -> Tensor:
    """Build a tensor full of one number, static or not.

    `sizes` is as for `filled`.
    """
    if op.is_static(value):
        return filled(op, sizes, op.static(value), dtype)
    return op.Expand(op.cast(value, dtype), sizes if isinstance(sizes, Tensor) else vector(op, sizes))


def sizes_like(op: Builder, x: Tensor) -> Any:
    """Return the sizes of a tensor: a list where they are static, else a tensor."""
    if x.shape is not None and all(isinstance(size, int) for size in x.shape):
        return list(x.shape)
    return op.Shape(x)
