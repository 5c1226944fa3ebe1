"""Gather what shows a fault.

The nodes of both graphs, their inputs, and both results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxexp.checking.counterparts import Counterparts, as_captured
from onnxexp.checking.onnx_slices import SlicedRun, boundary, slice_model
from onnxexp.checking.reference_session import to_torch
from onnxexp.checking.torch_interpreter import Interpreter
from onnxexp.neutral_graph import Graph, Node, Value, values_in

__all__ = ["Evidence", "gather"]


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """The smallest part of both graphs that shows a fault.

    Attributes:
        nodes: The captured nodes, in order.
        inputs: What they read, as ONNX has it.
        outputs: The captured values that are compared.
        model: The ONNX nodes as a model.
        feeds: Its inputs, by name.
        expected: torch's results.
    """

    nodes: Sequence[Node]
    inputs: Mapping[Value, Any]
    outputs: Sequence[Value]
    model: ir.Model
    feeds: Mapping[str, Any]
    expected: Sequence[Any]


def gather(
    graph: Graph,
    node: Node,
    merged: Sequence[str],
    counterparts: Counterparts,
    open_run: Callable[[], SlicedRun],
    around: Mapping[Value, Any],
) -> Evidence:
    """Run the ONNX graph again up to a fault, and take the values at its border.

    Args:
        graph: The captured graph.
        node: The node at fault.
        merged: The names of the nodes before it that its result covers.
        counterparts: The ONNX values of the captured ones.
        open_run: Begins a run of the ONNX graph.
        around: The values of the captured graph's inputs and of everything around it.

    Raises KeyError where a value cannot be had.
    """
    nodes = [each for each in graph.nodes if each is node or (each.outputs and each.outputs[0].name in merged)]
    made = {output for each in nodes for output in each.outputs}
    read = dict.fromkeys(value for each in nodes for value in _reads(each) if value not in made)
    outputs = [output for output in node.outputs if counterparts.onnx(output) is not None]
    wanted = [counterparts.found[output] for output in outputs]
    own = {counterparts.onnx(value) for value in made}
    onnx_nodes, start = boundary(wanted, counterparts.onnx_values() - own)
    read_onnx = [onnx for value in read if (onnx := counterparts.onnx(value)) is not None]
    values = open_run().values([*(value for value in start if value.const_value is None), *read_onnx])
    inputs = {value: _input(value, counterparts, values, {**around, **graph.params}) for value in read}
    order = {each: index for index, each in enumerate(_graph_of(onnx_nodes))}
    ordered = sorted(onnx_nodes, key=order.__getitem__)
    given = {value: values[value] for value in start if value in values}
    model = slice_model(counterparts.model, ordered, wanted, given)
    torch_ = Interpreter()
    env = dict(inputs)
    for each in nodes:
        env.update(zip(each.outputs, torch_.node(each, {**around, **env}), strict=True))
    feeds = {str(value.name): tensor for value, tensor in given.items()}
    return Evidence(nodes, inputs, outputs, model, feeds, [env[output] for output in outputs])


def _reads(node: Node) -> list[Value]:
    """The values that a node reads, those that its blocks read from outside too."""
    inside = {output for block in node.blocks for each in block.walk() for output in each.outputs}
    inside |= {value for block in node.blocks for value in (*block.inputs, *block.params)}
    read = [value for block in node.blocks for each in block.walk() for value in each.inputs()]
    read += [value for block in node.blocks for output in block.outputs for value in values_in(output)]
    return [*node.inputs(), *(value for value in read if value not in inside)]


def _input(value: Value, counterparts: Counterparts, values: Mapping[ir.Value, Any], known: Mapping[Value, Any]) -> Any:
    found = counterparts.found.get(value)
    if isinstance(found, ir.Value):
        if found in values:
            return as_captured(value, values[found])
        if found.const_value is not None:
            return as_captured(value, to_torch(found.const_value.numpy()))
    return known[value] if value in known else as_captured(value, counterparts.found[value])


def _graph_of(nodes: Sequence[ir.Node]) -> Sequence[ir.Node]:
    graph = nodes[0].graph if nodes else None
    return list(graph) if graph is not None else []
