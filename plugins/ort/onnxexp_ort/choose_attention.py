"""Finish the choice between GroupQueryAttention and the composition."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass


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
