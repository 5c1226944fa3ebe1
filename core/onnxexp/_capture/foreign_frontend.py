"""Check the results of another project's frontend, so that an error names it."""

from __future__ import annotations

import dataclasses

from torch.utils import _pytree as pytree

from onnxexp._capture.captured_program import CapturedProgram
from onnxexp._capture.graph_check import check_graph
from onnxexp._errors import LoweringError, OnnxExporterError, PluginError
from onnxexp._neutral_graph import Graph, Node
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
