"""Sizes of matrices, and the constants that depend on them.

A size is an int, or an expression of the captured program's symbols. Constants of known sizes are initializers; others are
computed at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import vector, with_shape
from onnxexp_aten.support.view_nodes import sliced


def matrix_sizes(op: Builder, x: Tensor) -> list[Dim]:
    """Return the sizes of matrices.

    Declines the call where the inputs do not determine them.
    """
    rank_of(op, x)
    sizes = list(x.shape or ())
    for dim in sizes:
        size(op, dim)
    return sizes


def size(op: Builder, dim: Dim) -> int | Tensor:
    """Return a size as an int, or as a 0-d int64 tensor."""
    found = op.size_of(dim)
    if found is None:
        op.decline(
            f"the size {dim} of the matrices to factorize depends on values, not on sizes; "
            "to fix this, give it a fixed size there"
        )
    return found


def dims(x: Tensor) -> tuple[Dim, Dim, Dim]:
    """Return the sizes of float64[batch, m, n]."""
    assert x.shape is not None
    batch, m, n = x.shape
    return batch, m, n


def broadcast(one: Sequence[Dim], other: Sequence[Dim]) -> list[Dim]:
    """Broadcast two shapes; symbols that differ are taken to be equal or 1."""
    rank = max(len(one), len(other))
    pairs = zip([*[1] * (rank - len(one)), *one], [*[1] * (rank - len(other)), *other], strict=True)
    return [
        second if first == 1 else first if second in (1, first) else SymbolicSize.larger(first, second) for first, second in pairs
    ]


def shaped(op: Builder, x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Reshape to these sizes."""
    if x.known_shape == tuple(sizes):
        return x
    target: list[Any] = [size(op, dim) for dim in sizes]
    return with_shape(op.Reshape(x, vector(op, target)), sizes)


def cut(op: Builder, x: Tensor, axis: int, start: Dim, end: Dim) -> Tensor:
    """Slice one axis of float64[batch, m, n], unless the slice is the whole axis."""
    assert x.shape is not None
    sizes = list(x.shape)
    if start == 0 and sizes[axis] == end:
        return x
    bounds = [size(op, bound) for bound in (start, end)]
    sizes[axis] = end - start
    return with_shape(sliced(op, x, axis, *bounds), sizes)


def parts(op: Builder, x: Tensor, axis: int, first: Dim, second: Dim) -> tuple[Tensor, Tensor]:
    """Split one axis of float64[batch, m, n] into two parts of these sizes."""
    if not (isinstance(first, int) and isinstance(second, int)):
        return cut(op, x, axis, 0, first), cut(op, x, axis, first, first + second)
    one, other = op.Split(x, [first, second], axis=axis, outputs=2)
    before, behind = list(dims(x))[:axis], list(dims(x))[axis + 1 :]
    return with_shape(one, [*before, first, *behind]), with_shape(other, [*before, second, *behind])


def numbers(op: Builder, count: Dim) -> Tensor:
    """Return the numbers below `count`, int64[count]."""
    if isinstance(count, int):
        return op.constant(torch.arange(count))
    end = size(op, count)
    places = op.Range(0, end, 1) if op.opset >= 11 else op.Squeeze(op.NonZero(filled(op, [end], 1, torch.float32)), axes=[0])
    return with_shape(places, [count])


def zeros(op: Builder, *sizes: Dim, value: float = 0.0) -> Tensor:
    """Fill a float64 tensor of these sizes with one number."""
    known = [each for each in sizes if isinstance(each, int)]
    if len(known) == len(sizes):
        return op.constant(torch.full(known, value, dtype=torch.float64))
    return with_shape(filled(op, [size(op, each) for each in sizes], value, torch.float64), sizes)


def _offsets(op: Builder, rows: Dim, columns: Dim) -> Tensor:
    """Return the column minus the row of each element, int64[rows, columns]."""
    return op.Sub(op.Unsqueeze(numbers(op, columns), axes=[0]), op.Unsqueeze(numbers(op, rows), axes=[1]))


def diagonal_mask(op: Builder, rows: Dim, columns: Dim) -> Tensor:
    """Return whether each element is on the diagonal, bool[rows, columns]."""
    if isinstance(rows, int) and isinstance(columns, int):
        return op.constant(torch.eye(rows, columns, dtype=torch.bool))
    return with_shape(op.Equal(_offsets(op, rows, columns), 0), [rows, columns])


def triangle_mask(op: Builder, rows: Dim, columns: Dim, *, upper: bool, beside: int = 0) -> Tensor:
    """Return whether each element is in the triangle, bool[rows, columns]."""
    if isinstance(rows, int) and isinstance(columns, int):
        ones = torch.ones(rows, columns, dtype=torch.bool)
        return op.constant(ones.triu(beside) if upper else ones.tril(-beside))
    offsets = _offsets(op, rows, columns)
    return op.Greater(offsets, beside - 1) if upper else op.Less(offsets, 1 - beside)


def triangle(op: Builder, x: Tensor, *, upper: bool, beside: int = 0, other: Any = 0.0) -> Tensor:
    """Return the triangle of float64[batch, m, n], with `other` in the rest.

    `beside` shifts the diagonal away from the triangle's corner.
    """
    mask = triangle_mask(op, *dims(x)[1:], upper=upper, beside=beside)
    return with_shape(op.Where(mask, x, op.cast(other, torch.float64)), dims(x))


def eye(op: Builder, batch: Dim, rows: Dim, columns: Dim) -> Tensor:
    """Build identity matrices, float64[batch, rows, columns]."""
    if isinstance(batch, int) and isinstance(rows, int) and isinstance(columns, int):
        return op.constant(torch.eye(rows, columns, dtype=torch.float64).expand(batch, rows, columns).contiguous())
    one = op.cast(op.Unsqueeze(diagonal_mask(op, rows, columns), axes=[0]), torch.float64)
    wide = one if batch == 1 else op.Expand(one, vector(op, [size(op, batch), 1, 1]))
    return with_shape(wide, [batch, rows, columns])
