"""Find the cache that keys and values extend: it grows, or its size is fixed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from onnxexp import Builder, Producer, Tensor
from onnxexp_aten.support.offset_ranges import is_range, start_of_range


@dataclasses.dataclass(frozen=True)
class Cache:
    """Keys or values of [batch, heads, sequence, width]: past ones, and new ones.

    Attributes:
        past: The past ones; a cache of a fixed size has room for more.
        new: The new ones.
        present: ``cat([past, new], 2)``, or the past with the new ones written from `length` on.
        length: The number of tokens before the new ones in a cache of a fixed size, int64[] or int64[1]; None for `cat`.
    """

    past: Tensor
    new: Tensor
    present: Tensor
    length: Tensor | None = None


def find_cache(op: Builder, x: Tensor, query: Tensor) -> Cache | None:
    """Match keys or values that extend a cache, also with each head repeated."""
    made, sizes, heads = op.producer(x), x.shape, (query.shape or ("", ""))[1]
    if sizes is None or len(sizes) != 4 or len(query.shape or ()) != 4 or not isinstance(heads, int):
        return None
    if made is not None and made.operator == "Reshape":
        source = _repeated(op, made.inputs[0], sizes)
        made, x = (None, x) if source is None else (op.producer(source), source)
    match = None if made is None else _FORMS.get(made.operator)
    return None if made is None or match is None else match(op, made, x)


def _joined(op: Builder, made: Producer, present: Tensor) -> Cache | None:
    """Match ``cat([past, new], 2)``."""
    if len(made.inputs) != 2 or made.attributes.get("axis", 0) % 4 != 2:
        return None
    past, new = made.inputs
    return None if past is None or new is None else Cache(past, new, present)


def _written(op: Builder, made: Producer, present: Tensor) -> Cache | None:
    """Match ``past.index_copy(2, arange(n) + length, new)``."""
    past, index, new = made.inputs
    if past is None or new is None or made.attributes.get("axis", 0) % 4 != 2 or "reduction" in made.attributes:
        return None
    positions = _without_views(op, index, "Unsqueeze", "Expand")
    length = None if positions is None else start_of_range(op, positions, (new.shape or ())[2])
    return None if length is None else Cache(past, new, present, length)


def _written_24(op: Builder, made: Producer, present: Tensor) -> Cache | None:
    """Match the same as TensorScatter of opset 24."""
    past, new, starts = made.inputs
    if past is None or new is None or made.attributes.get("axis", -2) % 4 != 2 or "mode" in made.attributes:
        return None
    length = _without_views(op, starts, "Expand")
    return Cache(past, new, present, length) if length is not None and length.shape in ((), (1,)) else None


_FORMS = MappingProxyType({"Concat": _joined, "ScatterElements": _written, "TensorScatter": _written_24})


def hides_later_keys(op: Builder, mask: Tensor | None, cache: Cache) -> bool:
    """Return whether a mask leaves out the keys behind the position of each query.

    Matches ``arange(keys) <= positions[:, None]``, alone or in a conjunction.
    """
    made = None if mask is None else op.producer(mask)
    if made is None:
        return False
    if made.operator == "Expand":
        return hides_later_keys(op, made.inputs[0], cache)
    if made.operator == "And":
        return any(hides_later_keys(op, each, cache) for each in made.inputs)
    if made.operator != "LessOrEqual" or cache.length is None:
        return False
    keys, queries = made.inputs
    counts, positions = _without_views(op, keys, "Unsqueeze"), _without_views(op, queries, "Unsqueeze")
    if keys is None or queries is None or counts is None or positions is None:
        return False
    count, size = (cache.new.shape or ())[2], (cache.present.shape or ())[2]
    along_axes = (keys.shape or ())[-1:] == (size,) and (queries.shape or ())[-2:] == (count, 1)
    start = start_of_range(op, positions, count) if along_axes and is_range(op, counts, size) else None
    return start is not None and start.value is cache.length.value


def _without_views(op: Builder, x: Tensor | None, *views: str) -> Tensor | None:
    made = None if x is None else op.producer(x)
    while made is not None and made.operator in views and made.inputs[0] is not None:
        x = made.inputs[0]
        made = op.producer(x)
    return x


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


def size_of(op: Builder, x: Tensor, axis: int) -> Any:
    """Return a size as a 0-d int64 tensor; all layers share it where an input has it."""
    size = (x.shape or ())[axis]
    known = op.size_of(size)
    if known is None:
        return op.Gather(op.Shape(x), axis)
    return op.constant(known) if isinstance(known, int) else known
