"""Remove dead code."""

from __future__ import annotations

from onnxexp.neutral_graph import Graph, Value, values_in

__all__ = ["drop_dead"]


def drop_dead(graph: Graph) -> None:
    """Remove unused nodes and parameters of a functional graph, in place."""
    used: set[Value] = set()
    _sweep(graph, used)
    for value in graph.params.keys() - used:
        del graph.params[value]


def _sweep(graph: Graph, used: set[Value]) -> None:
    used.update(values_in(graph.outputs))
    kept = []
    for node in reversed(graph.nodes):
        if not used.isdisjoint(node.outputs):
            for block in node.blocks:
                _sweep(block, used)
            used.update(values_in(node.args))
            kept.append(node)
    graph.nodes[:] = reversed(kept)
