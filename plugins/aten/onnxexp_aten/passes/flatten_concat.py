"""Flatten nested Concat nodes."""

from __future__ import annotations

import onnx_ir as ir


class FlattenConcat(ir.passes.InPlacePass):
    """Rewrite ``Concat(Concat(a, b), c)`` as ``Concat(a, b, c)``, as a pass."""

    last = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        concats = [node for node in model.graph if node.op_type == "Concat" and not node.domain]
        flattened = [_flatten(model.graph, node) for node in concats]
        return ir.passes.PassResult(model, any(flattened))


def _flatten(graph: ir.Graph, node: ir.Node) -> bool:
    axis = node.attributes.get_int("axis", 0)
    inner = [_inner(value, axis) for value in node.inputs]
    if not any(inner):
        return False
    inputs: list[ir.Value | None] = []
    for value, made in zip(node.inputs, inner, strict=True):
        inputs += made.inputs if made is not None else [value]
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    graph.remove([made for made in inner if made is not None], safe=True)
    return True


def _inner(value: ir.Value | None, axis: int) -> ir.Node | None:
    node = value.producer() if value is not None else None
    if value is None or node is None or node.op_type != "Concat" or node.domain:
        return None
    if node.attributes.get_int("axis", 0) != axis or len(value.uses()) != 1 or value.is_graph_output():
        return None
    return node
