"""Writes that nobody sees: what is written is a new tensor that nothing else uses, so the result may be another new one.

``conv(x).relu_()`` is most that models write in place, and no memory has to be followed for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from onnxexp.graph import Graph, Node, TensorType, Value, values_in
from onnxexp.passes.functionalize.facts import facts, plain_twin
from onnxexp.passes.functionalize.promotion import result_dtype
from onnxexp.torch_schemas import bind

__all__ = ["make_new"]


def make_new(graph: Graph, writes: Sequence[Node]) -> bool:
    """Rewrite all writes of a graph where nobody sees any of them; False, with nothing done, where somebody may."""
    new: set[Value] = set()
    used = values_in(graph.outputs)
    made: list[tuple[Node, str, list[Any]]] = []
    for node in graph.nodes:
        known = facts(node.op)
        if known.written:
            twin = plain_twin(node.op)
            if twin is None or node.args[0] not in new or len(node.outputs) != 1:
                return False
            args = bind(facts(twin).schema, node.args, {})
            if not _keeps_type(node, twin, args):
                return False
            made.append((node, twin, args))
        if node.blocks:
            return False
        if not known.opaque and known.viewed is None:
            new.update(node.outputs)
        used += values_in(node.args)
    uses = Counter(used)
    if any(uses[node.args[0]] > 1 for node in writes):
        return False
    for node, twin, args in made:
        node.op, node.args = twin, args
    return True


def _keeps_type(node: Node, twin: str, args: list[Any]) -> bool:
    """Whether what the twin gives is certainly of the type of what is written."""
    type_ = node.args[0].type
    if not isinstance(type_, TensorType) or type_.dtype is None or type_ != node.outputs[0].type:
        return False
    return result_dtype(twin, args, type_.dtype) == type_.dtype
