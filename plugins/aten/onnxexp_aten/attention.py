"""Scaled dot product attention."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import aten, rank_of
from onnxexp_aten.creation import arange_of
from onnxexp_aten.layout import filled, reshaped, size_at, sizes_of, swapped, unsqueezed, with_shape

__all__ = ["attend"]


def attend(op: Builder, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, keep: Tensor | None, scale: Any) -> Tensor:
    """softmax(query @ key^T * scale + bias) @ value * keep, over the last two axes."""
    scaled = query if not isinstance(scale, Tensor) and scale == 1 else op.Mul(query, op.cast(scale, query.dtype))
    scores = op.MatMul(scaled, swapped(op, key, -1, -2))
    if bias is not None:
        scores = op.Add(scores, bias)
    weights = op.Softmax(scores, axis=-1)
    result = op.MatMul(weights, value)
    return result if keep is None else op.Mul(result, keep)


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Tensor:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    if scale is None:
        scale = _default_scale(op, query)
    groups = _groups(op, query, key) if enable_gqa else 1
    if groups > 1:
        axis = rank_of(op, query) - 3
        query, key, value = _split_heads(op, query, groups), unsqueezed(op, key, [axis + 1]), unsqueezed(op, value, [axis + 1])
        attn_mask = _split_heads(op, attn_mask, groups) if attn_mask is not None and rank_of(op, attn_mask) > 2 else attn_mask
    bias, keep = mask_bias(op, query, key, attn_mask, is_causal)
    result = attend(op, query, key, value, bias, keep, scale)
    if groups == 1:
        return result
    sizes = list(sizes_of(op) or ())
    with_shape(result, [*sizes[:-3], sizes[-3] // groups, groups, *sizes[-2:]])  # type: ignore[operator]
    return reshaped(op, result, sizes)


def _default_scale(op: Builder, query: Tensor) -> Any:
    size = size_at(op, query, -1)
    if isinstance(size, int):
        return 1 / math.sqrt(size)
    return op.Reciprocal(op.Sqrt(op.cast(size, query.dtype)))


def _groups(op: Builder, query: Tensor, key: Tensor) -> int:
    heads, shared = (tensor.shape[-3] if tensor.shape else None for tensor in (query, key))
    if not isinstance(heads, int) or not isinstance(shared, int):
        raise op.error("grouped queries need numbers of heads that are known at export")
    return heads // shared


def _split_heads(op: Builder, x: Tensor, groups: int) -> Tensor:
    """The axis of heads as two: the keys' heads, and those of the queries for each; nothing is copied for a key."""
    sizes = list(x.shape or ())
    axis = len(sizes) - 3
    heads = sizes[axis]
    if not isinstance(heads, int) or heads == 1:
        return unsqueezed(op, x, [axis + 1])
    return reshaped(op, x, [*sizes[:axis], heads // groups, groups, *sizes[axis + 1 :]])


def mask_bias(op: Builder, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and the factor of the result that makes rows without any key 0 (None: there are none).

    The lowest finite number stands for minus infinity, whose softmax would be NaN in such rows.
    """
    dtype = query.dtype
    lowest = torch.finfo(dtype).min
    if is_causal:
        sizes = [size_at(op, query, -2), size_at(op, key, -2)]
        return _upper(op, sizes, lowest, dtype), None
    if mask is None:
        return None, None
    if mask.dtype == torch.bool:
        bias = op.Where(mask, op.constant(0.0, dtype), op.constant(lowest, dtype))
        return bias, None if _every_row(mask) else _any(op, op.cast(mask, dtype))
    if mask.const is not None and not bool(torch.isneginf(mask.const).all(-1).any()):
        return op.cast(mask, dtype), None
    bias = op.Max(mask, lowest)
    found = op.ReduceMax(mask, axes=[-1], keepdims=1)
    return bias, op.cast(op.Greater(found, -math.inf), dtype)


def _every_row(mask: Tensor) -> bool:
    return mask.const is not None and bool(mask.const.any(-1).all())


def _any(op: Builder, numbers: Tensor) -> Tensor:
    return op.ReduceMax(numbers, axes=[-1], keepdims=1)


def _upper(op: Builder, sizes: list[Any], value: float, dtype: torch.dtype) -> Tensor:
    """`value` above the diagonal, 0 elsewhere."""
    if op.is_static(sizes) and (op.opset < 14 or math.prod(sizes) <= 4096):
        return op.constant(_triangle(*sizes, value, dtype))
    if op.opset >= 14:
        return op.Trilu(filled(op, sizes, value, dtype), 1, upper=1)
    rows, columns = (arange_of(op, 0, size, 1, torch.int64) for size in sizes)
    return op.Where(op.Less(unsqueezed(op, rows, [1]), columns), op.constant(value, dtype), op.constant(0.0, dtype))


@functools.lru_cache(maxsize=16)
def _triangle(rows: int, columns: int, value: float, dtype: torch.dtype) -> torch.Tensor:
    """Cached, so that the layers of a model share one constant."""
    return torch.full((rows, columns), value, dtype=dtype).triu(1)
