"""Tensors full of one number, by ConstantOfShape."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.support.kernel_dtypes import runs
from onnxexp_aten.support.tensor_sizes import vector

__all__ = ["filled"]


def filled(op: Builder, sizes: Any, value: bool | int | float, dtype: torch.dtype) -> Tensor:
    """Build a tensor full of one number known at export.

    `sizes` is a list of ints and tensors, or a 1-D tensor.
    """
    if not runs(op, "ConstantOfShape", dtype):
        return op.cast(filled(op, sizes, value, torch.float32), dtype)
    number = torch.tensor([value], dtype=dtype)
    return op.ConstantOfShape(sizes if isinstance(sizes, Tensor) else op.constant(vector(op, sizes), torch.int64), value=number)
