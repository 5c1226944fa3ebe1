"""Find the first captured node whose ONNX value differs, and what made it wrong."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._capture.torch_state import silence_warnings
from onnxexp._checking.block_comparison import compare_blocks
from onnxexp._checking.comparison import Tolerances, VerificationReport, compare, run_eager
from onnxexp._checking.counterparts import Counterparts, as_captured
from onnxexp._checking.evidence import Evidence, border
from onnxexp._checking.exported import Exported, opener
from onnxexp._checking.graph_comparison import GraphComparison, Settings
from onnxexp._checking.mismatch_report import MismatchReport, NodeReport, Origin
from onnxexp._checking.onnx_slices import Runner, SlicedRun
from onnxexp._checking.reference_session import ReferenceSession
from onnxexp._checking.torch_interpreter import CannotRun
from onnxexp._checking.verification import random_outputs
from onnxexp._errors import OnnxExporterError, OptionError
from onnxexp._model.origins import LoweringRecord
from onnxexp._neutral_graph import Graph, Node, Value, replace_values


@dataclasses.dataclass(eq=False)
class NodeComparison:
    """The comparison of one model with the captured graph, for one call.

    Attributes:
        model: The ONNX model.
        record: The captured graph, with the counterparts of its values in this model.
        feeds: The values of the model's inputs, by name.
        inputs: The values of the captured graph's inputs.
        settings: The settings of the comparison.
    """

    model: ir.Model
    record: LoweringRecord
    feeds: Mapping[str, Any]
    inputs: Mapping[Value, Any]
    settings: Settings

    def __post_init__(self) -> None:
        self.counterparts = Counterparts(self.model, self.record.counterparts)
        self.torch_outputs: list[Any] = []
        self.onnx_outputs: list[Any] = []

    def sliced_run(self) -> SlicedRun:
        """Begin a new run of the model from its inputs."""
        given = {value: self.feeds[name] for value in self.model.graph.inputs if (name := value.name or "") in self.feeds}
        return SlicedRun(self.model, self.model.graph, given, self.settings.open_session)

    def reports(self) -> list[NodeReport]:
        """Compare every node, and keep the outputs of both graphs."""
        main = GraphComparison(
            self.record.graph, self.counterparts, self.sliced_run, self.settings, self.inputs, self.describe, compare_blocks
        )
        reports = list(main.reports())
        found = main.run.values(self.model.graph.outputs)
        self.onnx_outputs = [found.get(output) for output in self.model.graph.outputs]
        self.torch_outputs = main.torch_outputs
        return reports

    def describe(self, node: Any, path: str, status: Any, **fields: Any) -> NodeReport:
        """Make a node's report, with its plugin and symbolic."""
        symbolic, owner = self.record.symbolics.get(node, ""), self.record.owners.get(node)
        return NodeReport(
            node,
            f"{owner}/{path}" if owner else path,
            status,
            plugin=self.record.plugins.get(node, ""),
            symbolic=symbolic,
            **fields,
        )


def find_mismatch(
    program: Exported,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backend: str = "onnxruntime",
    model: ir.Model | None = None,
    loaded: Runner | None = None,
    chunk_bytes: int = 256 << 20,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: Tolerances | None = None,
    keep_values: bool = False,
) -> MismatchReport:
    """Compare every captured node with ONNX, see `ONNXProgram.find_mismatch`.

    Args:
        model: Another model than the program's, whose values have the same names: one from a file.
        loaded: The model, loaded in the backend already.
        keep_values: Keep both sides' results in the reports of the nodes.
    """
    if program.record is None:
        raise OptionError(
            "this program has no captured graph to compare with; to fix this, use the program that onnxexp.export returns"
        )
    begin = time.perf_counter()
    leaves = program.signature.flatten(args, kwargs)
    feeds = {**program.weights, **program.signature.feeds(leaves)}
    settings = Settings(opener(backend, program.prepare), rtol, atol, tolerances, chunk_bytes, keep_values)
    compared = NodeComparison(model or program.model, program.record, feeds, _inputs(program, leaves, feeds), settings)
    with silence_warnings():  # the export has given them already
        whole = (loaded or settings.open_session(compared.model)).run(feeds)  # first: it checks the inputs
        reports = compared.reports()
        origin, reports = find_origin(compared, reports, rebuild=model is None)
        outputs, capture, runtime = _whole(program, compared, whole, args, kwargs, leaves)
    faulty = any(each.status == "fault" for each in reports)
    return MismatchReport(
        tuple(reports), outputs, origin, capture, "" if faulty else runtime, chunk_bytes, time.perf_counter() - begin,
    )  # fmt: skip


def _inputs(program: Exported, leaves: Sequence[Any], feeds: Mapping[str, Any]) -> dict[Value, Any]:
    """Return the values of the captured graph's inputs."""
    assert program.record is not None
    fed = {slot.leaf: feeds[slot.name] for slot in program.signature.inputs}
    found = ((value, fed.get(index, leaves[index])) for index, value in enumerate(program.record.graph.inputs))
    return {value: leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for value, leaf in found}


def _whole(
    program: Exported,
    compared: NodeComparison,
    whole: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaves: Sequence[Any],
) -> tuple[VerificationReport | None, str, str]:
    """Compare the outputs of the model as a whole with the original's.

    The two texts explain differences that no node has: a fault of the capture, and one of the runtime.
    """
    settings, names = compared.settings, [value.name or "" for value in compared.model.graph.outputs]
    tolerances = {"rtol": settings.rtol, "atol": settings.atol, "tolerances": settings.tolerances}
    random = random_outputs(program)
    runtime = ""
    if None not in compared.onnx_outputs and not random:
        differing = compare(compared.onnx_outputs, whole, names, **tolerances)  # type: ignore[arg-type]
        runtime = "" if differing.ok else (
            "the whole file computes other outputs than its nodes one by one, so an optimization of the runtime is at fault: "
            f"{_first_problem(differing)}"
        )  # fmt: skip
    if program.eager is None:
        return None, "", runtime
    expected = run_eager(program.eager, args, kwargs)
    named = program.signature.output_names(names, whole)
    outputs = compare(expected, program.signature.unflatten(whole, leaves), named, random=random, **tolerances)  # type: ignore[arg-type]
    captured = [output for output in compared.torch_outputs if output is not None]
    wanted = [leaf for leaf in pytree.tree_leaves(expected) if leaf is not None]
    capture = ""
    if not random and len(captured) == len(wanted):
        differing = compare(wanted, captured, [f"result {index}" for index in range(len(wanted))], **tolerances)  # type: ignore[arg-type]
        capture = "" if differing.ok else (
            "the captured graph itself computes another result than the model: the capture fixed something that depends on the "
            f"inputs, such as a size or a branch (see the export's warnings): {_first_problem(differing)}"
        )  # fmt: skip
    return outputs, capture, runtime


def _first_problem(report: VerificationReport) -> str:
    return next(f"{output.name}: {output.problem}" for output in report.outputs if output.problem)


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
