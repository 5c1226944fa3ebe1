"""Remove dead code and unused initializers."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

__all__ = ["remove_unused"]


def remove_unused(model: ir.Model) -> None:
    """Remove dead nodes, unused optional outputs and unused initializers, in place.

    onnx-ir's pass does not detach the body of a dead If, Loop or Scan, so that the values which the body reads stay in use.
    Here the bodies are detached, and the pass runs again.
    """
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    nested = [node for graph in graphs for node in graph.all_nodes() if _bodies(node)]
    RemoveUnusedNodesPass()(model)
    while dead := [node for node in nested if node.graph is None]:
        for node in dead:
            _detach_bodies(node)
        RemoveUnusedNodesPass()(model)
        nested = [node for node in nested if node.graph is not None]


def _bodies(node: ir.Node) -> list[ir.Graph]:
    return [attribute.as_graph() for attribute in node.attributes.values() if attribute.type is ir.AttributeType.GRAPH]


def _detach_bodies(node: ir.Node) -> None:
    for body in _bodies(node):
        for inner in body.all_nodes():
            inner.resize_inputs(0)
