"""Attention with a key-value cache: GroupQueryAttention, one query at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor, TensorType
from onnxexp_aten.nn.attention import mask_bias
from onnxexp_ort.domain import DOMAIN

__all__ = ["PRESENTS", "attend_with_cache"]

PRESENTS = "onnxruntime-contrib.presents"
"""The results of each ``Concat(past, new)`` and of the attention that makes the same present."""
_COMPOSING = "onnxruntime-contrib.composing"
"""Set while the composition is lowered, for more queries than one."""
_WIDTH = 8
"""The kernel takes heads with a multiple of so many elements."""


@dataclasses.dataclass(frozen=True)
class _Cache:
    """Keys or values, ``cat([past, new], 2)``, of [batch, heads, sequence, width]."""

    past: Tensor
    new: Tensor
    present: Tensor


def attend_with_cache(op: Builder) -> Tensor | None:
    """Lower scaled_dot_product_attention of a cache that its arguments extend.

    The kernel of GroupQueryAttention takes several queries after a past only for a batch of 1, it divides by a batch of 0, and
    for many queries it is slower than the composition. So it computes a single query; ``If`` chooses the composition for more.
    For a single query, the kernel's causal mask is no restriction. Any mask becomes its `attention_bias`.

    Returns None where the operator does not fit.
    """
    query, key, value, mask, dropout, causal, scale, _ = op.args
    if op.context.plugin_data.get(_COMPOSING) or dropout or causal is not False:
        return None
    if isinstance(scale, Tensor) or scale == 0:  # the kernel takes 0 for its default
        return None
    keys, values = _cache(op, key, query), _cache(op, value, query)
    if keys is None or values is None or not _fits(query, keys, values, mask):
        return None
    cond = _single_query(op, query)
    if cond is False:
        return None
    call = _Call(op, query, keys, values, mask, scale)
    results = call() if cond is True else []
    if cond is not True:
        composed = [_packed(op, _composed(op)), keys.present, values.present]
        results = op.if_(cond, call, lambda: composed)
    pairs = op.context.plugin_data.setdefault(PRESENTS, [])
    pairs += [(old.present.value, new.value) for old, new in zip((keys, values), results[1:], strict=True)]
    return _split(op, results[0], query)


def _fits(query: Tensor, keys: _Cache, values: _Cache, mask: Tensor | None) -> bool:
    alike = keys.past.shape == values.past.shape and keys.new.shape == values.new.shape
    if query.dtype not in (torch.float32, torch.float16) or not alike:
        return False
    heads, width = _heads(query)
    own, same_width = _heads(keys.new)
    if not own or not width or width != same_width or width % _WIDTH or heads % own:
        return False
    return (query.shape or ())[2] == (keys.new.shape or ())[2] and (mask is None or _fits_mask(mask, query, keys.present))


def _heads(x: Tensor) -> tuple[int, int]:
    """Heads and width of [batch, heads, sequence, width]; 0 where one is dynamic."""
    _, heads, _, width = x.shape or ("", "", "", "")
    return heads if isinstance(heads, int) else 0, width if isinstance(width, int) else 0


def _fits_mask(mask: Tensor, query: Tensor, present: Tensor) -> bool:
    """Whether a mask is [1 or batch, 1, queries, keys], as the kernel takes it."""
    sizes, of_query, of_keys = mask.shape or (), query.shape or (), present.shape or ()
    return len(sizes) == 4 and sizes[0] in (1, of_query[0]) and sizes[1] == 1 and sizes[2:] == (of_query[2], of_keys[2])


def _cache(op: Builder, x: Tensor, query: Tensor) -> _Cache | None:
    """Match ``cat([past, new], 2)``, also with each head repeated."""
    made, sizes, heads = op.producer(x), x.shape, (query.shape or ("", ""))[1]
    if sizes is None or len(sizes) != 4 or len(query.shape or ()) != 4 or not isinstance(heads, int):
        return None
    if made is not None and made.operator == "Reshape":
        source = _repeated(op, made.inputs[0], sizes)
        made, x = (None, x) if source is None else (op.producer(source), source)
    if made is None or made.operator != "Concat" or len(made.inputs) != 2 or made.attributes.get("axis", 0) % 4 != 2:
        return None
    past, new = made.inputs
    return None if past is None or new is None else _Cache(past, new, x)


def _repeated(op: Builder, x: Tensor | None, sizes: Sequence[Any]) -> Tensor | None:
    """Match ``x[:, :, None].expand(-1, -1, n, -1, -1)`` before its reshape to `sizes`."""
    wide = None if x is None else op.producer(x)
    narrow = None if wide is None or wide.operator != "Expand" or wide.inputs[0] is None else op.producer(wide.inputs[0])
    source = None if narrow is None or narrow.operator != "Unsqueeze" else narrow.inputs[0]
    if x is None or wide is None or source is None or wide.inputs[0] is None or len(source.shape or ()) != 4:
        return None
    batch, heads, length, width = source.shape or ()
    spread, before = x.shape or (), wide.inputs[0].shape
    if not isinstance(heads, int) or len(spread) != 5 or before != (batch, heads, 1, length, width):
        return None
    copies = spread[2]
    if not isinstance(copies, int) or spread != (batch, heads, copies, length, width):
        return None
    return source if tuple(sizes) == (batch, heads * copies, length, width) else None


class _Call:
    """One call of GroupQueryAttention, whose attention bias is the mask."""

    def __init__(
        self, op: Builder, query: Tensor, keys: _Cache, values: _Cache, mask: Tensor | None, scale: float | None
    ) -> None:
        self._op, self._query, self._caches, self._scale = op, query, (keys, values), scale
        bias, keep = mask_bias(op, query, keys.present, mask, False)
        self._bias, self._keep = bias, None if keep is None else op.Squeeze(keep, axes=[1])
        total = _size(op, keys.present, 2)
        self._total = op.cast(total, torch.int32)
        self._lengths = op.Expand(op.cast(op.Sub(total, 1), torch.int32), op.Reshape(_size(op, query, 0), [1]))
        self._inputs = [_packed(op, x) for x in (query, keys.new, values.new)]

    def __call__(self) -> list[Tensor]:
        """Emit it; return the packed result, and the present keys and values."""
        op, (batch, _, length, _) = self._op, self._query.shape or ()
        heads, width = _heads(self._query)
        bias = [] if self._bias is None else [None, None, None, self._bias]
        pasts = [cache.past for cache in self._caches]
        result, *presents = op.domain(DOMAIN).GroupQueryAttention(
            *self._inputs, *pasts, self._lengths, self._total, *bias,
            num_heads=heads, kv_num_heads=(pasts[0].shape or ())[1], scale=self._scale, outputs=3,
        )  # fmt: skip
        result.stamp(TensorType(self._query.dtype, (batch, length, heads * width)))
        for made, cache in zip(presents, self._caches, strict=True):
            made.stamp(TensorType(self._query.dtype, cache.present.shape))
        return [result if self._keep is None else op.Mul(result, self._keep), *presents]


def _single_query(op: Builder, query: Tensor) -> Any:
    """Whether there is one query, and a batch: True, False, or a bool tensor."""
    batch, _, length, _ = query.shape or ()
    if batch == 0 or (isinstance(length, int) and length != 1):
        return False
    checks = [] if length == 1 else [op.Equal(_size(op, query, 2), 1)]
    checks += [] if isinstance(batch, int) else [op.Greater(_size(op, query, 0), 0)]
    return op.And(*checks) if len(checks) == 2 else (checks or [True])[0]


def _composed(op: Builder) -> Tensor:
    """The same call, as another plugin lowers it."""
    data = op.context.plugin_data
    data[_COMPOSING] = True
    try:
        (result,) = op.torch_op(op.node.op, *op.args)
    finally:
        del data[_COMPOSING]
    assert isinstance(result, Tensor)
    return result


def _packed(op: Builder, x: Tensor) -> Tensor:
    """View [batch, heads, sequence, width] as [batch, sequence, heads * width]."""
    batch, _, length, _ = x.shape or ()
    heads, width = _heads(x)
    moved = op.Transpose(x, perm=[0, 2, 1, 3])
    moved.stamp(TensorType(None, (batch, length, heads, width)))
    made = op.Reshape(moved, [0, 0, heads * width])
    made.stamp(TensorType(None, (batch, length, heads * width)))
    return made


def _split(op: Builder, packed: Tensor, query: Tensor) -> Tensor:
    """View [batch, sequence, heads * width] as [batch, heads, sequence, width]."""
    batch, _, length, _ = query.shape or ()
    heads, width = _heads(query)
    made = op.Reshape(packed, [0, 0, heads, width])
    made.stamp(TensorType(None, (batch, length, heads, width)))
    return op.Transpose(made, perm=[0, 2, 1, 3])


def _size(op: Builder, x: Tensor, axis: int) -> Any:
    """A size as a 0-d int64 tensor; all layers share it where an input has it."""
    size = (x.shape or ())[axis]
    known = op.size_of(size)
    if known is None:
        return op.Gather(op.Shape(x), axis)
    return op.constant(known) if isinstance(known, int) else known
