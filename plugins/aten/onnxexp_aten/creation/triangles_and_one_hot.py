"""Identity matrices, triangles of matrices, and one-hot rows."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.math.arithmetic import select
from onnxexp_aten.support.constant_of_shape import MAX_TABLE, filled
from onnxexp_aten.support.kernel_dtypes import has_operator
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


@table("eye", "eye.m")
def eye(op: Builder, n: Any, *options: Any) -> Tensor:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, ...) -> Tensor"""
    dtype = out_dtype(op)
    m = options[0] if op.node.op == "aten::eye.m" else n
    if isinstance(n, int) and isinstance(m, int) and n * m <= MAX_TABLE:
        return op.constant(torch.eye(n, m, dtype=dtype))
    compute = dtype if dtype in (torch.float32, torch.float64, torch.int64, torch.int32) else torch.float32
    return op.cast(op.EyeLike(filled(op, [n, m], 0, compute)), dtype)


@table("tril_indices", "triu_indices")
def triangle_indices(op: Builder, row: Any, col: Any, offset: Any, *options: Any) -> Tensor:
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, ...) -> Tensor; a trace passes sizes as tensors"""
    upper = op.node.op == "aten::triu_indices"
    if any(isinstance(given, Tensor) for given in (row, col, offset)):
        return op.cast(op.NonZero(_triangle(op, filled(op, [row, col], 1, torch.float32), offset, upper=upper)), out_dtype(op))
    make = torch.triu_indices if upper else torch.tril_indices
    return op.constant(make(row, col, offset, dtype=out_dtype(op)))


@table("tril")
def tril(op: Builder, self: Tensor, diagonal: Any) -> Tensor:
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(op, self, diagonal, upper=False)


@table("triu")
def triu(op: Builder, self: Tensor, diagonal: Any) -> Tensor:
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return _triangle(op, self, diagonal, upper=True)


_TRILU_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)


def _triangle(op: Builder, x: Tensor, diagonal: Any, *, upper: bool) -> Tensor:
    if not has_operator(op, "Trilu"):
        return _masked_triangle(op, x, diagonal, upper=upper)
    shift = None if isinstance(diagonal, int) and diagonal == 0 else op.constant(diagonal, torch.int64)
    if x.dtype not in _TRILU_DTYPES:
        return op.cast(op.Trilu(op.cast(x, torch.int32), shift, upper=int(upper)), x.dtype)
    return op.Trilu(x, shift, upper=int(upper))


def _masked_triangle(op: Builder, x: Tensor, diagonal: Any, *, upper: bool) -> Tensor:
    """Select a triangle by a mask, for opsets without Trilu."""
    rows, columns = (arange_of(op, 0, size_at(op, x, axis), 1, torch.int64) for axis in (-2, -1))
    limit = op.Add(unsqueezed(op, rows, [1]), diagonal)
    kept = op.Not(op.Less(columns, limit)) if upper else op.Not(op.Less(limit, columns))
    return select(op, kept, x, op.constant(0, x.dtype))


@table("one_hot")
def one_hot(op: Builder, self: Tensor, num_classes: Any) -> Tensor:
    """one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    if self.rank == 0:
        return op.Reshape(_one_hot(op, op.Reshape(self, [1]), num_classes), [-1])
    return _one_hot(op, self, num_classes)


def _one_hot(op: Builder, self: Tensor, num_classes: Any) -> Tensor:
    index = op.cast(self, torch.int64)
    depth = op.Reshape(op.cast(num_classes, torch.int64), [1])
    if not isinstance(num_classes, Tensor) and num_classes == -1:
        largest = op.ReduceMax(op.cast(op.Reshape(index, [-1]), torch.int32), axes=[0], keepdims=1)
        depth = op.Add(op.cast(largest, torch.int64), 1)
    return op.OneHot(index, depth, op.constant([0, 1], torch.int64), axis=rank_of(op, self))
