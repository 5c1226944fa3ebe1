"""Find embedding bags of one size in the captured graph.

``F.embedding_bag`` flattens indices [bags, n] and counts the offsets with arange. Only the captured graph shows this: afterwards
the offsets are a run-time tensor like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxexp.graph import Dim, Graph, Node, TensorType, Value

EQUAL_BAGS = "aten.equal_bags"
"""Key in `ExportContext.plugin_data`: the number of indices in each bag, by the first output of an embedding bag."""

_FLATTENING = ("aten::reshape", "aten::view", "aten::_unsafe_view", "aten::flatten.using_ints")


class FindEqualBags:
    """Note the embedding bags whose offsets are 0, n, 2 * n, ..., as a pre pass."""

    def __init__(self, plugin_data: dict[Any, Any]) -> None:
        self._plugin_data = plugin_data

    def __call__(self, graph: Graph) -> bool:
        if not any(_is_bag(node) for node in graph.walk()):
            return False
        makers = {value: node for node in graph.walk() for value in node.outputs}
        counts = {node.outputs[0]: _count(node, makers) for node in graph.walk() if _is_bag(node)}
        self._plugin_data[EQUAL_BAGS] = {value: count for value, count in counts.items() if count is not None}
        return False


def _is_bag(node: Node) -> bool:
    return node.op.partition(".")[0] in ("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")


def _count(node: Node, makers: Mapping[Value, Node]) -> int | None:
    """Return the number of indices in each bag where all have the same, else None."""
    indices, offsets = node.args[1:3]
    flattened, counted = makers.get(indices), makers.get(offsets)
    if flattened is None or counted is None or flattened.op not in _FLATTENING or counted.op != "aten::arange.start_step":
        return None
    sizes, bags = _sizes(flattened.args[0]), _sizes(offsets)
    start, _, step = counted.args[:3]
    if sizes is None or len(sizes) != 2 or type(step) is not int or start != 0:
        return None
    return step if (*sizes,) == (*(bags or ()), step) else None


def _sizes(value: Any) -> tuple[Dim, ...] | None:
    return value.type.sizes if isinstance(value, Value) and isinstance(value.type, TensorType) else None
