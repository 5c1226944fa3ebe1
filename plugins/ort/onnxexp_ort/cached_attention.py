"""Attention with a key-value cache, as GroupQueryAttention of ONNX Runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp import Builder, Producer, Tensor
from onnxexp.graph import Dim, TensorType
from onnxexp_aten.nn.attention import mask_bias
from onnxexp_aten.support.offset_ranges import is_range, start_of_range
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


class ChooseAttention(ir.passes.InPlacePass):
    """Return the presents of the attention; compute a branch only where it is chosen.

    Args:
        pairs: The result of each ``Concat(past, new)``, and of the attention that makes the same present.
    """

    def __init__(self, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        self._pairs = pairs

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        branches: set[ir.Graph] = set()
        for old, new in self._pairs:
            _return(old, new)
            node = new.producer()
            branches.update(_branches(node) if node is not None and node.graph is model.graph else ())
        RemoveUnusedNodesPass()(model)
        for node in reversed(list(model.graph)):
            _sink(node, branches)
        for branch in branches:
            _drop_identities(branch)
        return ir.passes.PassResult(model, bool(self._pairs))


def _return(old: ir.Value, new: ir.Value) -> None:
    """Return the present of the attention from the model, not that of the Concat."""
    if old.is_graph_output() and new.graph is old.graph:
        new.shape, new.type = old.shape, old.type
        new.name, old.name = old.name, new.name
        graph = old.graph
        assert graph is not None
        for index, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[index] = new


def _branches(node: ir.Node) -> list[ir.Graph]:
    return [attribute.as_graph() for attribute in node.attributes.values() if attribute.type == ir.AttributeType.GRAPH]


def _sink(node: ir.Node, branches: set[ir.Graph]) -> None:
    """Move a node to the one branch that reads its results."""
    users = {user.graph for value in node.outputs for user, _ in value.uses()}
    (target,) = users if len(users) == 1 else (None,)
    if target in branches and node.graph is not target and not any(value.is_graph_output() for value in node.outputs):
        assert node.graph is not None and isinstance(target, ir.Graph)
        node.graph.remove(node)
        target.insert_before(target[0], node)


def _drop_identities(branch: ir.Graph) -> None:
    """Return what the branch computes, without an Identity."""
    for index, output in enumerate(branch.outputs):
        node = output.producer()
        source = None if node is None or node.op_type != "Identity" else node.inputs[0]
        if node is not None and source is not None and source.graph is branch and not source.is_graph_output():
            branch.outputs[index] = source
            branch.remove(node, safe=True)
