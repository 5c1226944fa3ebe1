"""Gather the evidence of a fault.

The evidence is the nodes of both graphs, their inputs, and both results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxexp._checking.counterparts import Counterparts, as_onnx
from onnxexp._checking.onnx_slices import SlicedRun, boundary, slice_model
from onnxexp._checking.torch_interpreter import Interpreter
from onnxexp._neutral_graph import Node, Value, values_in


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """The smallest part of both graphs that shows a fault.

    Attributes:
        nodes: The captured nodes, in order.
        inputs: The values that they read, as computed by ONNX.
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
    nodes: Sequence[Node],
    counterparts: Counterparts,
    known: Mapping[Value, Any],
    open_run: Callable[[], SlicedRun],
    around: Mapping[Value, Any],
) -> Evidence:
    """Collect the values at the border of a fault, and torch's results inside it.

    Args:
        nodes: The captured nodes, the one at fault last.
        counterparts: The ONNX values of the captured ones.
        known: The values that the nodes read, as computed by ONNX.
        open_run: Begins a run of the ONNX graph, for values at the border that the nodes do not read.
        around: The values of the captured graph's inputs and of everything around it.

    Raises KeyError where a value is missing, and CannotRun where torch cannot run a node.
    """
    outputs = [output for output in nodes[-1].outputs if counterparts.onnx(output) is not None]
    wanted = [counterparts.found[output] for output in outputs]
    onnx_nodes, given = border(nodes, wanted, counterparts, known, open_run)
    model = slice_model(counterparts.model, onnx_nodes, wanted, given)
    torch_, env = Interpreter(), {**around, **known}
    for each in nodes:
        env.update(zip(each.outputs, torch_.node(each, env), strict=True))
    inputs = {value: env[value] for value in region_inputs(nodes)}
    feeds = {str(value.name): tensor for value, tensor in given.items()}
    return Evidence(nodes, inputs, outputs, model, feeds, [env[output] for output in outputs])


def border(
    nodes: Sequence[Node],
    wanted: Sequence[ir.Value],
    counterparts: Counterparts,
    known: Mapping[Value, Any],
    open_run: Callable[[], SlicedRun],
) -> tuple[list[ir.Node], dict[ir.Value, Any]]:
    """List captured nodes' ONNX nodes in order, and the values that they start from."""
    own = {counterparts.onnx(output) for each in nodes for output in each.outputs}
    onnx_nodes, start = boundary(wanted, counterparts.onnx_values() - own)
    given = {
        onnx: as_onnx(onnx, result) for value, result in known.items() if (onnx := counterparts.onnx(value)) in start
    }  # fmt: skip
    missing = [value for value in start if value not in given and value.const_value is None]
    if missing:
        given |= open_run().values(missing)
    graph = onnx_nodes[0].graph if onnx_nodes else None
    place = {node: index for index, node in enumerate(graph or ())}
    return sorted(onnx_nodes, key=place.__getitem__), given


def region_inputs(nodes: Sequence[Node]) -> list[Value]:
    """List the values that captured nodes read from others."""
    made = {output for each in nodes for output in each.outputs}
    return list(dict.fromkeys(value for each in nodes for value in _reads(each) if value not in made))


def _reads(node: Node) -> list[Value]:
    """List the values that a node and its blocks read from outside."""
    inside = {output for block in node.blocks for each in block.walk() for output in each.outputs}
    inside |= {value for block in node.blocks for value in (*block.inputs, *block.params)}
    read = [value for block in node.blocks for each in block.walk() for value in each.inputs()]
    read += [value for block in node.blocks for output in block.outputs for value in values_in(output)]
    return [*node.inputs(), *(value for value in read if value not in inside)]
