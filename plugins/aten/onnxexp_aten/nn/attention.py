"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.nn.dropout import dropped
from onnxexp_aten.support.constant_of_shape import MAX_TABLE, filled
from onnxexp_aten.support.kernel_dtypes import has_operator, targets_plain_onnx
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector, with_shape
from onnxexp_aten.support.view_nodes import reshaped, squeezed, swapped, unsqueezed

__all__ = ["mask_bias", "table"]

table = SymbolicTable("aten")


def attend(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    keep: Tensor | None,
    scale: Any,
    dropout_p: float = 0.0,
) -> Tensor:
    """Compute softmax(query @ key^T * scale + bias) @ value * keep."""
    weights = _weights(op, query, key, bias, scale)
    if dropout_p > 0:
        weights, _ = dropped(op, weights, dropout_p)
    result = op.MatMul(weights, value)
    return result if keep is None else op.Mul(result, keep)


def _weights(op: Builder, query: Tensor, key: Tensor, bias: Tensor | None, scale: Any) -> Tensor:
    """Compute softmax(query @ key^T * scale + bias)."""
    if not isinstance(scale, Tensor) and scale == 1:
        scores = op.MatMul(query, swapped(op, key, -1, -2))
    else:
        factor = op.cast(scale, query.dtype)
        if query.value is key.value:  # ONNX Runtime's MatMulScaleFusion loses a scaled query that is the key and the value, too
            scores = op.Mul(op.MatMul(query, swapped(op, key, -1, -2)), factor)
        else:
            scores = op.MatMul(op.Mul(query, factor), swapped(op, key, -1, -2))
    return op.Softmax(scores if bias is None else op.Add(scores, bias), axis=-1)


def scaled_scores(op: Builder, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Compute attention weights, and the factor that zeroes fully masked rows.

    The factor is None where no row can be fully masked.
    """
    bias, keep = mask_bias(op, query, key, mask, False)
    return _weights(op, query, key, bias, _default_scale(op, query)), keep


def _result_sizes(query: Tensor, value: Tensor) -> list[Any]:
    return [*(query.shape or ())[:-1], *(value.shape or ())[-1:]]


@table("scaled_dot_product_attention")
def scaled_dot_product_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool | Tensor,
    scale: Any,
    enable_gqa: bool,
) -> Tensor:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    if isinstance(is_causal, Tensor):  # a script computes it

        def attended(causal: bool) -> list[Tensor]:
            return [scaled_dot_product_attention(op, query, key, value, attn_mask, dropout_p, causal, scale, enable_gqa)]

        return op.if_(is_causal, lambda: attended(True), lambda: attended(False))[0]
    attn_mask = _needed_mask(op, attn_mask)
    if scale is None:
        scale = _default_scale(op, query)
    groups = _groups(op, query, key) if enable_gqa else 1
    sizes = _result_sizes(query, value)
    if groups > 1:
        axis = rank_of(op, query) - 3
        query, key, value = _split_heads(op, query, groups), unsqueezed(op, key, [axis + 1]), unsqueezed(op, value, [axis + 1])
        attn_mask = _split_heads(op, attn_mask, groups) if attn_mask is not None and rank_of(op, attn_mask) > 2 else attn_mask
    bias, keep = mask_bias(op, query, key, attn_mask, is_causal)
    result = attend(op, query, key, value, bias, keep, scale, dropout_p)
    if groups == 1:
        return result
    split = with_shape(result, _result_sizes(query, value))
    return reshaped(op, split, sizes)


@table("scaled_dot_product_attention", since=23)
def scaled_dot_product_attention_23(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool | Tensor,
    scale: Any,
    enable_gqa: bool,
) -> Tensor:
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    if not isinstance(is_causal, Tensor):  # a script may compute it
        fused = _fused(op, query, key, value, attn_mask, dropout_p, is_causal, scale)
        if fused is not None:
            return fused
    return scaled_dot_product_attention(op, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _fused(
    op: Builder, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, scale: Any
) -> Tensor | None:
    """Emit Attention, whose kernel repeats the heads of keys and values itself.

    Returns None for a call that Attention cannot express, and where ONNX Runtime's kernel differs from torch.
    """
    mask, rank = _needed_mask(op, mask), rank_of(op, query)
    if rank not in (3, 4) or dropout_p > 0 or isinstance(scale, Tensor) or not _kernel_takes(op, mask, query.dtype):
        return None
    mask = None if mask is None else _kernel_mask(op, mask, query, key)
    if rank == 3 and not all(isinstance((tensor.shape or ("",))[-1], int) for tensor in (query, key, value)):
        one_head = [unsqueezed(op, tensor, [1]) for tensor in (query, key, value)]  # ONNX infers 0 for heads of unknown width
        return squeezed(op, op.Attention(*one_head, mask, is_causal=int(is_causal), scale=scale), [1])
    heads = {"q_num_heads": 1, "kv_num_heads": 1} if rank == 3 else {}
    result: Tensor = op.Attention(query, key, value, mask, is_causal=int(is_causal), scale=scale, **heads)
    return result


def _needed_mask(op: Builder, mask: Tensor | None) -> Tensor | None:
    """Return the mask, or None where it is provably all True or adds only zeros.

    Models build such masks where nothing is padded, often with Expand.
    """
    known = mask
    if mask is not None and mask.const is None:
        node = op.producer(mask)  # a range of values: whether the kernel takes the mask depends on it, before any pass
        known = node.inputs[0] if node is not None and node.operator == "Expand" else None
    if mask is None or known is None or known.const is None:
        return mask
    masks_nothing = known.const.all() if mask.dtype == torch.bool else ~known.const.any()
    return None if bool(masks_nothing) else mask


def _kernel_takes(op: Builder, mask: Tensor | None, dtype: torch.dtype) -> bool:
    """Return whether ONNX Runtime's Attention kernel agrees with torch.

    In float64, fully masked rows of its result are NaN.
    """
    return (
        targets_plain_onnx(op) or mask is None or dtype != torch.float64 or (mask.dtype == torch.bool and _keeps_every_row(mask))
    )


def _kernel_mask(op: Builder, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Convert a mask for ONNX Runtime's Attention kernel.

    The kernel takes masks with two or four axes and full query and key sizes. It treats a row of the lowest finite number as
    fully masked, so that number is halved.
    """
    if rank_of(op, query) == 3 and rank_of(op, mask) == 3:
        mask = unsqueezed(op, mask, [1])
    if targets_plain_onnx(op):
        return mask
    if mask.dtype != torch.bool:
        lowest = torch.finfo(mask.dtype).min
        mask = op.Where(op.Equal(mask, lowest), op.constant(lowest / 2, mask.dtype), mask)
    return _full_rows(op, mask, query, key)


def _full_rows(op: Builder, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Expand a mask to the numbers of queries and keys.

    ONNX Runtime's kernel broadcasts the other axes only.
    """
    shape = mask.shape or ()
    target: list[Any] = [1] * len(shape)
    expands = False
    for axis, tensor in ((-2, query), (-1, key)):
        if shape[axis] == 1 and (tensor.shape or ())[-2] != 1:
            target[axis] = size_at(op, tensor, -2)
            expands = True
    return op.Expand(mask, vector(op, target)) if expands else mask


def _default_scale(op: Builder, query: Tensor) -> Any:
    """Return 1 / sqrt(width of a head)."""
    size = size_at(op, query, -1)
    if isinstance(size, int):
        return 1 / math.sqrt(size)
    return op.Reciprocal(op.Sqrt(op.cast(size, query.dtype)))


def _groups(op: Builder, query: Tensor, key: Tensor) -> int:
    """Return the number of query heads for each key head."""
    query_heads, key_heads = (tensor.shape[-3] if tensor.shape else None for tensor in (query, key))
    if not isinstance(query_heads, int) or not isinstance(key_heads, int):
        raise op.error("the number of heads must be known at export for grouped queries; to fix this, use no dynamic axis there")
    return query_heads // key_heads


def _split_heads(op: Builder, x: Tensor, groups: int) -> Tensor:
    """Split the heads into key heads and the queries of each.

    The keys broadcast along the second axis instead of being copied.
    """
    sizes = list(x.shape or ())
    axis = len(sizes) - 3
    heads = sizes[axis]
    if not isinstance(heads, int) or heads == 1:
        return unsqueezed(op, x, [axis + 1])
    return reshaped(op, x, [*sizes[:axis], heads // groups, groups, *sizes[axis + 1 :]])


def mask_bias(
    op: Builder, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the scores' bias, and the factor that zeroes rows without any key.

    The factor is None where there are no such rows. The lowest finite number stands for minus infinity, whose softmax is NaN in
    such a row.
    """
    dtype = query.dtype
    lowest = torch.finfo(dtype).min
    if is_causal:
        sizes = [size_at(op, query, -2), size_at(op, key, -2)]
        return _upper_triangle(op, sizes, lowest, dtype), None
    if mask is None:
        return None, None
    if mask.dtype == torch.bool:
        bias = op.Where(mask, op.constant(0.0, dtype), op.constant(lowest, dtype))
        return bias, None if _keeps_every_row(mask) else _has_key(op, mask, dtype)
    if mask.const is not None and not bool(torch.isneginf(mask.const).all(-1).any()):
        return op.cast(mask, dtype), None
    return op.Max(mask, lowest), _has_key(op, op.Greater(mask, -math.inf), dtype)


def _has_key(op: Builder, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 for each row of a bool mask with a True, else 0.

    ReduceMax would do, but with axes as an input it stops ONNX Runtime's symbolic shape inference.
    """
    return op.Sign(op.ReduceSum(op.cast(mask, dtype), axes=[-1], keepdims=1))


def _keeps_every_row(mask: Tensor) -> bool:
    """Return whether each row of a bool mask has a True that is known at export."""
    return mask.const is not None and bool(mask.const.any(-1).all())


def _upper_triangle(op: Builder, sizes: list[Any], value: float, dtype: torch.dtype) -> Tensor:
    """Build a matrix with `value` above the diagonal and 0 elsewhere."""
    if op.is_static(sizes) and (not has_operator(op, "Trilu") or math.prod(sizes) <= MAX_TABLE):
        return op.constant(_shared_triangle(op, (sizes[0], sizes[1]), value, dtype))
    if has_operator(op, "Trilu"):
        return op.Trilu(filled(op, sizes, value, dtype), 1, upper=1)
    rows, columns = (arange_of(op, 0, size, 1, torch.int64) for size in sizes)
    return op.Where(op.Less(unsqueezed(op, rows, [1]), columns), op.constant(value, dtype), op.constant(0.0, dtype))


def _shared_triangle(op: Builder, sizes: tuple[int, int], value: float, dtype: torch.dtype) -> torch.Tensor:
    """Build a constant triangle, which the layers of a model share."""
    key = ("aten.triangle", sizes, value, dtype)
    shared = op.context.plugin_data
    if key not in shared:
        shared[key] = torch.full(sizes, value, dtype=dtype).triu(1)
    triangle: torch.Tensor = shared[key]
    return triangle
