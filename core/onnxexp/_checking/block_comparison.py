"""Compare the blocks of an If, a Loop or a Scan whose results differ."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxexp._checking.counterparts import as_captured
from onnxexp._checking.graph_comparison import GraphComparison
from onnxexp._checking.mismatch_report import NodeReport
from onnxexp._checking.onnx_slices import SlicedRun, free_values
from onnxexp._checking.reference_session import to_torch
from onnxexp._errors import OnnxExporterError
from onnxexp._neutral_graph import Graph, Node

_MAX_ITERATIONS = 1000
"""A loop is compared iteration by iteration up to this one."""

Values: TypeAlias = Mapping[ir.Value, Any]
Iteration: TypeAlias = "tuple[str, Graph, ir.Graph, dict[ir.Value, Any]]"
"""A title, the captured block, its ONNX graph, and the values of that graph's inputs."""


def compare_blocks(outer: GraphComparison, node: Node, values: Values, flow: ir.Node) -> list[NodeReport]:
    """Compare the nodes of the taken branch, or of the first iteration with a fault.

    Returns [] without a fault.

    Args:
        outer: The comparison of the graph around.
        node: The captured prim::If, prim::Loop or prim::Scan.
        values: ONNX's values around.
        flow: The ONNX If, Loop or Scan.
    """
    around = {value: found for value in free_values(flow) if (found := _value(value, values)) is not None}
    iterations = {"If": _branch, "Loop": _loop, "Scan": _scan}[flow.op_type]
    try:
        for title, block, graph, given in iterations(outer, node, flow, around):
            reports = _reports(outer, node, block, graph, {**around, **given}, title)
            if any(each.status == "fault" for each in reports):
                return reports
    except (OnnxExporterError, KeyError):  # the fault of the whole node is reported all the same
        return []
    return []


def _reports(outer: GraphComparison, node: Node, block: Graph, graph: ir.Graph, given: Values, title: str) -> list[NodeReport]:
    counterparts = outer.counterparts
    inputs = {
        value: as_captured(value, given[onnx])
        for value in block.inputs
        if (onnx := counterparts.onnx(value)) is not None and onnx in given
    }
    inner = GraphComparison(
        block, counterparts, functools.partial(_run, outer, graph, given), outer.settings, {**outer.known(), **inputs},
        outer.describe, compare_blocks, f"{outer.path}{node.outputs[0].name}/",
    )  # fmt: skip
    return [dataclasses.replace(each, note=each.note or title) for each in inner.reports()]


def _branch(outer: GraphComparison, node: Node, flow: ir.Node, around: Values) -> Iterator[Iteration]:
    taken = bool(around[_input(flow, 0)])
    name = "then_branch" if taken else "else_branch"
    yield f"in the {name}", node.blocks[0 if taken else 1], flow.attributes[name].as_graph(), {}


def _loop(outer: GraphComparison, node: Node, flow: ir.Node, around: Values) -> Iterator[Iteration]:
    body, (block,) = flow.attributes["body"].as_graph(), node.blocks
    trips = _MAX_ITERATIONS if flow.inputs[0] is None else int(around[_input(flow, 0)])
    going = torch.tensor(True) if flow.inputs[1] is None else around[_input(flow, 1)]
    carried = [around[_input(flow, index)] for index in range(2, len(flow.inputs))]
    for index in range(min(trips, _MAX_ITERATIONS)):
        if not bool(going):
            return
        given = dict(zip(body.inputs, [torch.tensor(index), going, *carried], strict=True))
        yield f"in iteration {index} of the loop", block, body, given
        going, *carried = _results(outer, body, {**around, **given})[: 1 + len(carried)]


def _scan(outer: GraphComparison, node: Node, flow: ir.Node, around: Values) -> Iterator[Iteration]:
    body, (block,) = flow.attributes["body"].as_graph(), node.blocks
    states = len(flow.inputs) - flow.attributes["num_scan_inputs"].as_int()
    values = [around[_input(flow, index)] for index in range(len(flow.inputs))]
    carried, xs = values[:states], values[states:]
    for index in range(min(len(xs[0]) if xs else 0, _MAX_ITERATIONS)):
        given = dict(zip(body.inputs, [*carried, *(x[index] for x in xs)], strict=True))
        yield f"in iteration {index} of the scan", block, body, given
        carried = _results(outer, body, {**around, **given})[:states]


def _results(outer: GraphComparison, graph: ir.Graph, given: Values) -> list[Any]:
    found = _run(outer, graph, given).values(graph.outputs)
    return [found[output] if output in found else _value(output, found) for output in graph.outputs]


def _run(outer: GraphComparison, graph: ir.Graph, given: Values) -> SlicedRun:
    return SlicedRun(outer.counterparts.model, graph, given, outer.settings.open_session)


def _input(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _value(value: ir.Value, values: Values) -> Any:
    if value in values or value.const_value is None:
        return values.get(value)
    return to_torch(value.const_value.numpy())
