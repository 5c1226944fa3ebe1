"""Attention with a key-value cache, as GroupQueryAttention of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim, TensorType
from onnxexp_aten.nn.attention import mask_bias
from onnxexp_ort.caches import Cache, find_cache, hides_later_keys, size_of
from onnxexp_ort.domain import DOMAIN

FIRST_WITH_ATTENTION = 23
"""The first opset whose own RotaryEmbedding runs at least as fast, and so does Attention with a cache that grows."""
PRESENTS = "onnxruntime-contrib.presents"
"""Each present of the composition, and the result of the attention that is the same."""
_COMPOSING = "onnxruntime-contrib.composing"
"""Set while the composition is lowered, for the queries that the kernel does not take."""
_WIDTH = 8
"""The kernel takes heads with a multiple of so many elements."""


def attend_with_cache(op: Builder) -> Tensor | None:
    """Lower scaled_dot_product_attention where keys and values extend a cache.

    The kernel of GroupQueryAttention has limits: after a past it takes several queries only for a batch of 1, and it divides by
    a batch of 0. With a cache that grows, it is used for a single query only, since for many it is slower than the composition.
    With a cache of a fixed size, it also computes the first queries, since it reads only the tokens that are there. For all
    other queries, ``If`` chooses the composition at run time.

    The kernel's own causal mask hides nothing from a single query. From the first queries it hides only what their own mask
    hides. Any mask becomes the `attention_bias`.

    Returns None where the operator does not fit.
    """
    query, key, value, mask, dropout, causal, scale, _ = op.args
    if op.context.plugin_data.get(_COMPOSING) or dropout or causal is not False:
        return None
    if isinstance(scale, Tensor) or scale == 0:  # the kernel takes 0 for its default
        return None
    keys, values = find_cache(op, key, query), find_cache(op, value, query)
    if keys is not None and keys.length is None and op.opset >= FIRST_WITH_ATTENTION:
        return None
    if keys is None or values is None or not _fits_operator(op, query, keys, values, mask):
        return None
    cond = _fits_kernel(op, query, keys)
    if cond is False:
        return None
    call = _GroupQueryAttention(op, query, keys, values, mask, scale)
    results = call() if cond is True else []
    if cond is not True:
        composed = [packed(op, _composed(op)), keys.present, values.present]
        results = op.if_(cond, call, lambda: composed)
    pairs = op.context.plugin_data.setdefault(PRESENTS, [])
    pairs += [(old.present.value, new.value) for old, new in zip((keys, values), results[1:], strict=True)]
    return split(op, results[0], query.shape or ())


def _fits_operator(op: Builder, query: Tensor, keys: Cache, values: Cache, mask: Tensor | None) -> bool:
    """Return whether GroupQueryAttention has a form for these dtypes and shapes."""
    same_shapes = keys.past.shape == values.past.shape and keys.new.shape == values.new.shape
    if keys.length is not None or values.length is not None:
        same_shapes = same_shapes and _same_length(keys, values) and hides_later_keys(op, mask, keys)
    if query.dtype not in (torch.float32, torch.float16) or not same_shapes:
        return False
    heads, width = heads_of(query)
    key_heads, key_width = heads_of(keys.new)
    if not key_heads or not width or width != key_width or width % _WIDTH or heads % key_heads:
        return False
    return (query.shape or ())[2] == (keys.new.shape or ())[2] and (mask is None or fits_mask(mask, query, keys.present))


def _same_length(keys: Cache, values: Cache) -> bool:
    return keys.length is not None and values.length is not None and keys.length.value is values.length.value


class _GroupQueryAttention:
    """One call of GroupQueryAttention, whose attention bias is the mask."""

    def __init__(self, op: Builder, query: Tensor, keys: Cache, values: Cache, mask: Tensor | None, scale: float | None) -> None:
        self._op, self._query, self._caches, self._scale = op, query, (keys, values), scale
        total = _total(op, keys)
        if mask is not None and keys.length is not None:  # the kernel reads the first `total` keys
            mask = op.Slice(mask, [0], op.Reshape(total, [1]), [3])
        bias, keep = mask_bias(op, query, keys.present, mask, False)
        self._bias, self._keep = bias, None if keep is None else op.Squeeze(keep, axes=[1])
        self._total = op.cast(total, torch.int32)
        self._lengths = op.Expand(op.cast(op.Sub(total, 1), torch.int32), op.Reshape(size_of(op, query, 0), [1]))
        self._inputs = [packed(op, x) for x in (query, keys.new, values.new)]

    def __call__(self) -> list[Tensor]:
        """Emit the node; return the packed result, and the present keys and values."""
        op, (batch, _, length, _) = self._op, self._query.shape or ()
        heads, width = heads_of(self._query)
        bias = [] if self._bias is None else [None, None, None, self._bias]
        pasts = [cache.past for cache in self._caches]
        result, *presents = op.domain(DOMAIN).GroupQueryAttention(
            *self._inputs, *pasts, self._lengths, self._total, *bias,
            num_heads=heads, kv_num_heads=(pasts[0].shape or ())[1], scale=self._scale, outputs=3,
        )  # fmt: skip
        result.stamp(TensorType(self._query.dtype, (batch, length, heads * width)))
        for present, cache in zip(presents, self._caches, strict=True):
            present.stamp(TensorType(self._query.dtype, cache.present.shape))
        return [result if self._keep is None else op.Mul(result, self._keep), *presents]


def _total(op: Builder, cache: Cache) -> Any:
    """Return the number of past and new tokens, int64[]."""
    if cache.length is None:
        return size_of(op, cache.present, 2)
    return op.Add(op.Reshape(cache.length, []), size_of(op, cache.new, 2))


def _fits_kernel(op: Builder, query: Tensor, cache: Cache) -> Any:
    """Return whether the kernel computes these queries: True, False, or a bool tensor."""
    batch, _, count, _ = query.shape or ()
    if batch == 0 or count == 0:
        return False
    checks = [] if count == 1 else [op.Equal(size_of(op, query, 2), 1)]
    if cache.length is not None and checks:
        first = op.And(op.Equal(op.Reshape(cache.length, []), 0), op.Greater(size_of(op, query, 2), 0))
        checks = [op.Or(*checks, first)]
    elif isinstance(count, int) and count != 1:
        return False
    if not isinstance(batch, int):
        checks.append(op.Greater(size_of(op, query, 0), 0))
    if not checks:
        return True
    return op.And(*checks) if len(checks) == 2 else checks[0]


def _composed(op: Builder) -> Tensor:
    """Return the same call, as another plugin lowers it."""
    data = op.context.plugin_data
    data[_COMPOSING] = True
    try:
        (result,) = op.torch_op(op.node.op, *op.args)
    finally:
        del data[_COMPOSING]
    assert isinstance(result, Tensor)
    return result


def heads_of(x: Tensor) -> tuple[int, int]:
    """Return heads and width of [batch, heads, sequence, width], 0 for a dynamic size."""
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
    transposed = op.Transpose(x, perm=[0, 2, 1, 3])
    transposed.stamp(TensorType(None, (batch, length, heads, width)))
    joined = op.Reshape(transposed, [0, 0, heads * width])
    joined.stamp(TensorType(None, (batch, length, heads * width)))
    return joined


def split(op: Builder, x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """View [batch, sequence, heads * width] as [batch, heads, sequence, width]."""
    batch, heads, length, width = sizes
    separate = op.Reshape(x, [0, 0, heads, width])
    separate.stamp(TensorType(None, (batch, length, heads, width)))
    return op.Transpose(separate, perm=[0, 2, 1, 3])
