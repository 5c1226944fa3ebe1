"""What a finished model computes and holds for nobody."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxexp.schemas import operator

__all__ = ["remove_unused"]


def remove_unused(model: ir.Model) -> None:
    """Remove, in place, nodes and initializers that nobody uses, optional outputs likewise, and inputs at the end that are none.

    onnx-ir has a pass for it, which looks up the schema of every node.
    """
    opset = model.graph.opset_imports[""]
    _clean(model.graph, opset)
    for function in model.functions.values():
        _clean(function, function.opset_imports.get("", opset))
    graph = model.graph
    kept = {*graph.inputs, *graph.outputs}
    for name in [name for name, value in graph.initializers.items() if value not in kept and not value.uses()]:
        del graph.initializers[name]


def _clean(graph: ir.Graph | ir.Function, opset: int) -> None:
    results = set(graph.outputs)
    for node in reversed(graph):  # the last first: what only an unused node uses is unused
        unused = [output for output in node.outputs if output not in results and not output.uses()]
        if len(unused) == len(node.outputs):
            _let_go(node)
            graph.remove(node, safe=True)
            continue
        if unused:
            _drop(node, unused, opset)
        if node.inputs and node.inputs[-1] is None:
            node.resize_inputs(max((index for index, value in enumerate(node.inputs, 1) if value is not None), default=0))
        for body in _bodies(node):
            _clean(body, opset)


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.data.values():  # the view of the container itself looks each up in Python
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.as_graph()


def _let_go(node: ir.Node) -> None:
    """End what the bodies of a node that is removed use outside of them: else that would stay in the model for nobody."""
    for body in _bodies(node):
        for inner in body:
            _let_go(inner)
            inner.resize_inputs(0)


def _drop(node: ir.Node, unused: list[ir.Value], opset: int) -> None:
    """Drop those of the unused outputs that the operator need not have."""
    spec = operator(node.domain, node.op_type, opset) if not node.domain else None
    if spec is None or node.op_type == "BatchNormalization":  # how many outputs it has says what it computes
        return
    for formal, output in zip(spec.outputs, node.outputs, strict=False):
        if formal.optional and output in unused:
            output.name = ""
    node.resize_outputs(max((index for index, output in enumerate(node.outputs, 1) if output.name), default=0))
