"""Check captured graphs, and name the frontend of another project in errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._capture.captured_program import CapturedProgram
from onnxexp._errors import LoweringError, OnnxExporterError, PluginError, summary
from onnxexp._neutral_graph import Graph, Node, Type, Value, values_in
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.plugin import Implementation


def checked_program(implementation: Implementation, program: CapturedProgram, leaves: int) -> CapturedProgram:
    """Return a frontend's program, whose decompositions are checked too.

    Raises PluginError for a broken graph, and where inputs or outputs are missing.
    """
    if not isinstance(program.out_spec, pytree.TreeSpec):
        broken = f"its out_spec is {program.out_spec!r}"
    else:
        broken = check_graph(program.graph) or _counts(program.graph, leaves, program.out_spec.num_leaves)
    if broken:
        raise PluginError(
            f"{implementation} returned a broken program: {broken}; to fix this, pass without=[{implementation.plugin.name!r}]"
        )

    if program.decompose is None:
        return program
    own = program.decompose

    def decompose(node: Node) -> Graph | None:
        what = f"the decomposition of {node.op} by {implementation}"
        with calling(implementation.plugin, what, LoweringError, (OnnxExporterError,)):
            found = own(node)
        wrong = "" if found is None else check_graph(found) or _counts(found, len(node.inputs()), len(node.outputs))
        if wrong:
            raise LoweringError(f"{what} is broken: {wrong}; to fix this, pass without=[{implementation.plugin.name!r}]")
        return found

    return dataclasses.replace(program, decompose=decompose)


def _counts(graph: Graph, inputs: int, outputs: int) -> str:
    counts = (("inputs", len(graph.inputs), inputs), ("outputs", len(graph.outputs), outputs))
    return next((f"it has {found} {what} instead of {wanted}" for what, found, wanted in counts if found != wanted), "")


def check_graph(graph: Graph) -> str:
    """Find a value that is used before it is made, or made twice, or return ""."""
    try:
        return next(_faults(graph, set()), "")
    except Exception as error:  # noqa: BLE001 – a pass may leave anything where a node or value was
        return f"it cannot be read: {summary(error)}"


def _faults(graph: Graph, outer: set[Value]) -> Iterator[str]:
    known = {*outer, *graph.inputs, *graph.params}
    params: dict[Any, Any] = {**graph.params}  # a pass may have left anything in it
    yield from (f"the parameter {key!r} is {held!r}" for key, held in params.items() if not isinstance(held, torch.Tensor))
    for node in graph.nodes:
        op: Any = node.op
        if not isinstance(op, str) or not all(isinstance(each.type, Type) for each in node.outputs):
            yield f"{node!r} has no operator, or an output without a type"
        for value in node.inputs():
            if value not in known:
                yield f"{node!r} uses %{value.name}, which nothing before it makes"
        for block in node.blocks:
            yield from _faults(block, known)
        for value in node.outputs:
            if value in known:
                yield f"{node!r} makes %{value.name} a second time"
            known.add(value)
    for value in values_in(graph.outputs):
        if value not in known:
            yield f"the graph returns %{value.name}, which nothing makes"
