"""What a finished model computes and holds for nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from onnxexp.schemas import operator

__all__ = ["remove_unused"]


def remove_unused(graph: list[ir.Node] | ir.Graph | ir.Function, outputs: Collection[ir.Value], opset: int) -> None:
    """Remove, in place, nodes of a graph with these outputs that nobody uses, optional outputs likewise, and inputs at the end
    that are none.

    onnx-ir has a pass for it, which looks up the schema of every node.
    """
    unused: list[ir.Node] = []
    for node in reversed(graph):  # the last first: what only an unused node uses is unused
        idle = [output for output in node.outputs if not output.uses() and output not in outputs]
        if len(idle) == len(node.outputs):
            _let_go(node)
            unused.append(node)
            continue
        if idle:
            _drop(node, idle, opset)
        if node.inputs and node.inputs[-1] is None:
            node.resize_inputs(max((index for index, value in enumerate(node.inputs, 1) if value is not None), default=0))
        for body in _bodies(node):
            remove_unused(body, body.outputs, opset)
    if not isinstance(graph, list):
        graph.remove(unused)
    elif unused:
        gone = set(unused)
        graph[:] = [node for node in graph if node not in gone]


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.data.values():  # the view of the container itself looks each up in Python
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.as_graph()


def _let_go(node: ir.Node) -> None:
    """End what a node that is removed uses, its bodies too: else that would stay in the model for nobody."""
    node.resize_inputs(0)
    for body in _bodies(node):
        for inner in body:
            _let_go(inner)


def _drop(node: ir.Node, unused: list[ir.Value], opset: int) -> None:
    """Drop those of the unused outputs that the operator need not have."""
    spec = operator(node.domain, node.op_type, opset) if not node.domain else None
    if spec is None or node.op_type == "BatchNormalization":  # how many outputs it has says what it computes
        return
    for formal, output in zip(spec.outputs, node.outputs, strict=False):
        if formal.optional and output in unused:
            output.name = ""
    node.resize_outputs(max((index for index, output in enumerate(node.outputs, 1) if output.name), default=0))
