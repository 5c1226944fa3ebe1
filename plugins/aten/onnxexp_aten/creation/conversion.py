"""Casts and copies."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor

table = SymbolicTable("aten")


@table("to.dtype", "to.dtype_layout", "to.device", "to.prim_Device", "to.prim_dtype", "_to_copy", "prims::convert_element_type")
def to(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor

    ONNX has no devices, layouts or memory formats: only a dtype among the options has an effect. `self` may be a number.
    """
    dtype = next((option for option in options if isinstance(option, torch.dtype)), None)
    return self if dtype is None else op.cast(self, dtype)


@table("to.other", "to.prim_other", "type_as")
def to_other(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, ...) -> Tensor"""
    return op.cast(self, next((option.dtype for option in options if isinstance(option, Tensor)), self.dtype))


def _named(name: str, dtype: torch.dtype) -> None:
    def symbolic(op: Builder, self: Tensor, *_: Any) -> Tensor:
        return op.cast(self, dtype)

    symbolic.__doc__ = f"{name}(Tensor self, ...) -> Tensor, a cast to {dtype}"
    table(name)(symbolic)


for _name, _dtype in {
    "_cast_Byte": torch.uint8,
    "_cast_Char": torch.int8,
    "_cast_Double": torch.float64,
    "_cast_Float": torch.float32,
    "_cast_Half": torch.float16,
    "_cast_Int": torch.int32,
    "_cast_Long": torch.int64,
    "_cast_Short": torch.int16,
}.items():
    _named(_name, _dtype)


@table(
    "alias",
    "alias_copy",
    "clone",
    "conj_physical",
    "contiguous",
    "cpu",
    "detach",
    "detach_copy",
    "lift",
    "lift_fresh",
    "lift_fresh_copy",
    "positive",
    "real",
    "resolve_conj",
    "resolve_neg",
)
def same(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor; ONNX tensors are values and need no copy"""
    return self
