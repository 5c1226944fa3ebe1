"""Masks and packed heads, [batch, sequence, heads * width], of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim, TensorType


def heads_of(x: Tensor) -> tuple[int, int]:
    """Heads and width of [batch, heads, sequence, width]; 0 where one is dynamic."""
    _, heads, _, width = x.shape or ("", "", "", "")
    return heads if isinstance(heads, int) else 0, width if isinstance(width, int) else 0


def fits_mask(mask: Tensor, query: Tensor, keys: Tensor) -> bool:
    """Return whether a mask is [1 or batch, 1, queries, keys], as the kernels take it."""
    sizes, of_query, of_keys = mask.shape or (), query.shape or (), keys.shape or ()
    return len(sizes) == 4 and sizes[0] in (1, of_query[0]) and sizes[1] == 1 and sizes[2:] == (of_query[2], of_keys[2])


def packed(op: Builder, x: Tensor) -> Tensor:
    """View [batch, heads, sequence, width] as [batch, sequence, heads * width]."""
    batch, _, length, _ = x.shape or ()
    heads, width = heads_of(x)
    moved = op.Transpose(x, perm=[0, 2, 1, 3])
    moved.stamp(TensorType(None, (batch, length, heads, width)))
    made = op.Reshape(moved, [0, 0, heads * width])
    made.stamp(TensorType(None, (batch, length, heads * width)))
    return made


def split(op: Builder, x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """View [batch, sequence, heads * width] as [batch, heads, sequence, width]."""
    batch, heads, length, width = sizes
    made = op.Reshape(x, [0, 0, heads, width])
    made.stamp(TensorType(None, (batch, length, heads, width)))
    return op.Transpose(made, perm=[0, 2, 1, 3])
