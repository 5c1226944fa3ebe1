"""New tensors full of one number."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.support.constant_of_shape import filled, full_of, sizes_like
from onnxexp_aten.support.tensor_sizes import output_type

table = SymbolicTable("aten")


def out_dtype(op: Builder, index: int = 0) -> torch.dtype:
    """Return the dtype of the node's output in the captured program."""
    return output_type(op, index).dtype  # type: ignore[return-value]  # None only where TorchScript records no dtype


@table("zeros", "empty.memory_format", "empty_strided", "empty_permuted")
def zeros(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 0, out_dtype(op))


@table("ones")
def ones(op: Builder, size: list[Any], *options: Any) -> Tensor:
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 1, out_dtype(op))


@table("full")
def full(op: Builder, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, size, fill_value, out_dtype(op))


@table("zeros_like", "empty_like")
def zeros_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, sizes_like(op, self), 0, out_dtype(op))


@table("ones_like")
def ones_like(op: Builder, self: Tensor, *options: Any) -> Tensor:
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, sizes_like(op, self), 1, out_dtype(op))


@table("full_like")
def full_like(op: Builder, self: Tensor, fill_value: Any, *options: Any) -> Tensor:
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, sizes_like(op, self), fill_value, out_dtype(op))


@table("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 0, out_dtype(op))


@table("new_ones")
def new_ones(op: Builder, self: Tensor, size: list[Any], *options: Any) -> Tensor:
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op, size, 1, out_dtype(op))


@table("new_full")
def new_full(op: Builder, self: Tensor, size: list[Any], fill_value: Any, *options: Any) -> Tensor:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full_of(op, size, fill_value, out_dtype(op))


@table("scalar_tensor")
def scalar_tensor(op: Builder, s: Any, *options: Any) -> Tensor:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.cast(s, out_dtype(op))
