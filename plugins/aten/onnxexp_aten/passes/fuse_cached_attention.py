"""Let Attention extend a key-value cache by the new keys and values."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir

from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.view_rules import known_dims


def _with_cache(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    if (
        len(node.outputs) != 1
        or node.attributes.get_int("is_causal", 0) == 1
        or any(each is not None for each in node.inputs[4:])
    ):
        return None
    presents = node.inputs[1:3]
    (past_key, key), (past_value, value) = (_cached(node, present) for present in presents)
    if None in (past_key, key, past_value, value) or known_dims(past_key)[2] != known_dims(past_value)[2]:
        return None
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    attributes = {name: each.value for name, each in node.attributes.items()}
    inputs = [node.inputs[0], key, value, mask, past_key, past_value]
    made = rewriter.emit("Attention", inputs, attributes, sizes=known_dims(node.outputs[0]), outputs=3)
    for present, replacement in zip(presents, made[1:], strict=True):
        assert present is not None
        rewriter.take_place(present, replacement)
    return made[0]


def _cached(node: ir.Node, present: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """Match ``Concat(past, new)`` along the sequence; return both, else None twice."""
    joined = None if present is None else present.producer()
    if present is None or joined is None or joined.op_type != "Concat" or joined.domain or len(joined.inputs) != 2:
        return None, None
    sole = present.is_graph_output() and all(user is node for user, _ in present.uses()) and len(present.uses()) == 1
    if not sole or joined.graph is not node.graph or len(known_dims(present)) != 4 or joined.attributes.get_int("axis", 0) != 2:
        return None, None
    return joined.inputs[0], joined.inputs[1]


class FuseCachedAttention(RewritePass):
    """Let Attention concatenate the past with the new keys and values.

    The pass replaces ``Concat(past, new)`` along the sequence where the graph returns it as the present keys or values, and only
    this Attention reads it. The kernel then copies the past while it computes: no Concat runs before it.
    """

    rules = MappingProxyType({"Attention": _with_cache})
