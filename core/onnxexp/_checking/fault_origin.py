"""Find the origin of a node's fault: a symbolic, a pass, or the runtime."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir

from onnxexp._checking.block_comparison import compare_blocks
from onnxexp._checking.counterparts import as_captured
from onnxexp._checking.evidence import Evidence, border
from onnxexp._checking.graph_comparison import GraphComparison, Settings
from onnxexp._checking.mismatch_report import NodeReport, Origin
from onnxexp._checking.onnx_slices import SlicedRun
from onnxexp._checking.reference_session import ReferenceSession
from onnxexp._checking.torch_interpreter import CannotRun
from onnxexp._errors import OnnxExporterError
from onnxexp._model.origins import LoweringRecord
from onnxexp._neutral_graph import Graph, Node, Value, replace_values

_MOST = 20
"""Faults whose exact node is looked for; the others are reported as they are."""


def find_origin(compared: Any, reports: list[NodeReport], *, rebuild: bool) -> tuple[Origin | None, list[NodeReport]]:
    """Find the origin of the first fault, and the exact nodes.

    The captured graph is lowered again, without passes: there every captured node has a value of its own, those of decompositions
    too. The nodes of a fault run there on the inputs that they had. A fault that is there is the symbolic's, or the runtime's
    where ONNX's reference evaluator does not have it. Any other fault is of a pass, which is found by bisection.

    Args:
        compared: The comparison, a `NodeComparison`.
        reports: Its reports.
        rebuild: Whether the model is that of the record; else no pass can be found.
    """
    faults = [each for each in reports if each.status == "fault"]
    if not faults:
        return None, reports
    if not rebuild:
        return Origin("unknown", _symbolic(faults[0].innermost())), reports
    plain = compared.record.rebuild(0)
    exact = {fault: _exact(compared, fault, *plain) for fault in faults[:_MOST]}
    first = exact[faults[0]]
    origin = _pass(compared, faults[0]) if first is None else _symbolic_or_runtime(compared.settings, first.innermost())
    return origin, [exact.get(each) or each for each in reports]


def _exact(compared: Any, fault: NodeReport, model: ir.Model, record: LoweringRecord) -> NodeReport | None:
    """Find the first node of a fault that is wrong in another model of the same graph.

    Returns None if all nodes are right, and the fault itself if it cannot be run there.
    """
    assert fault.evidence is not None
    try:
        reports = _reports(compared, fault.evidence(), model, flattened(record))
    except (OnnxExporterError, KeyError, CannotRun):
        return fault
    return next((each for each in reports if each.status == "fault"), None)


def _reports(compared: Any, evidence: Evidence, model: ir.Model, record: LoweringRecord) -> list[NodeReport]:
    """Compare the nodes of a fault in another model, on the inputs of the first model."""
    other = dataclasses.replace(compared, model=model, record=record)
    names = {node.outputs[0].name for node in evidence.nodes if node.outputs}
    nodes = [
        node
        for node in record.graph.nodes
        if node in evidence.nodes or record.owners.get(node, "").partition("/")[0] in names
    ]  # fmt: skip
    wanted = [onnx for node in nodes for onnx in other.counterparts.of(node)]
    onnx_nodes, given = border(nodes, wanted, other.counterparts, evidence.inputs, other.sliced_run)
    run = functools.partial(SlicedRun, model, onnx_nodes, given, compared.settings.open_session)
    part = Graph(nodes=nodes, params=record.graph.params)
    inputs = {**compared.inputs, **evidence.inputs}
    return list(
        GraphComparison(part, other.counterparts, run, compared.settings, inputs, other.describe, compare_blocks).reports()
    )


def _pass(compared: Any, fault: NodeReport) -> Origin:
    """Find the first pass after which the fault is there."""
    names = compared.record.passes
    low, high = 0, len(names)  # right after `low` passes, wrong after `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _exact(compared, fault, *compared.record.rebuild(middle)) is None else (low, middle)
    if not names:
        return Origin("unknown", "the same nodes are right when they are lowered again")
    name = names[low]
    return Origin("pass", f"the pass {name}: without it the value is right; skip_passes={[name]} leaves it out")


def _symbolic_or_runtime(settings: Settings, fault: NodeReport) -> Origin:
    """Run the ONNX nodes of a fault in the reference evaluator.

    The runtime is at fault where the evaluator agrees with torch, else the symbolic.
    """
    try:
        evidence = fault.evidence() if fault.evidence is not None else None
        results = ReferenceSession(evidence.model).run(evidence.feeds) if evidence is not None else []
        compared = zip(evidence.outputs, evidence.expected, results, strict=True) if evidence is not None else ()
        agrees = all(not settings.compare(value.name, one, as_captured(value, other)).problem for value, one, other in compared)
    except (OnnxExporterError, KeyError, CannotRun):
        results, agrees = [], False
    if results and agrees:
        return Origin("runtime", "ONNX Runtime: the same nodes give torch's value in ONNX's reference evaluator")
    return Origin("symbolic", _symbolic(fault))


def _symbolic(fault: NodeReport) -> str:
    return f"the symbolic {fault.symbolic} of the plugin {fault.plugin!r}" if fault.symbolic else "the core's lowering"


def flattened(record: LoweringRecord) -> LoweringRecord:
    """Return the record with the nodes of decompositions in its graph.

    The new nodes come before the node that was decomposed, as parts of it.
    """
    flat = _Flattened(record)
    graph = record.graph
    nodes = list(flat.nodes(graph, {}, ""))
    return dataclasses.replace(
        record,
        graph=Graph(graph.inputs, graph.outputs, nodes, {**graph.params, **flat.params}),
        plugins={**record.plugins, **flat.plugins},
        symbolics={**record.symbolics, **flat.symbolics},
        owners=flat.owners,
    )


@dataclasses.dataclass
class _Flattened:
    """The nodes of decompositions, copied with the arguments of the node around them."""

    record: LoweringRecord
    params: dict[Value, Any] = dataclasses.field(default_factory=dict)
    plugins: dict[Node, str] = dataclasses.field(default_factory=dict)
    symbolics: dict[Node, str] = dataclasses.field(default_factory=dict)
    owners: dict[Node, str] = dataclasses.field(default_factory=dict)

    def nodes(self, graph: Graph, bound: Mapping[Value, Any], owner: str) -> Iterator[Node]:
        for node in graph.nodes:
            made = self._copy(node, bound, owner) if owner else node
            inner = self.record.decompositions.get(node)
            if inner is not None and node.outputs:
                self.params.update(inner.params)
                path = f"{owner}/{node.outputs[0].name}" if owner else node.outputs[0].name
                yield from self.nodes(inner, dict(zip(inner.inputs, made.inputs(), strict=True)), path)
            yield made

    def _copy(self, node: Node, bound: Mapping[Value, Any], owner: str) -> Node:
        args = [replace_values(arg, lambda value: bound.get(value, value)) for arg in node.args]
        copied = Node(node.op, args, node.outputs, node.blocks, node.where)
        symbolic = self.record.symbolics.get(node, "")
        self.symbolics[copied], self.owners[copied] = symbolic, owner
        self.plugins[copied] = "decomposed" if node in self.record.decompositions else symbolic.partition(".")[0]
        return copied
