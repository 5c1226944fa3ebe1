"""Find what is to blame for a node's fault: a symbolic, a pass, or the runtime."""

from __future__ import annotations

import dataclasses
from typing import Any

from onnxexp.checking.counterparts import as_captured
from onnxexp.checking.flatten_decompositions import flattened
from onnxexp.checking.graph_comparison import Settings
from onnxexp.checking.mismatch_report import NodeReport, Origin
from onnxexp.checking.reference_session import ReferenceSession
from onnxexp.checking.torch_interpreter import CannotRun
from onnxexp.errors import OnnxExporterError

__all__ = ["find_origin"]


def find_origin(compared: Any, reports: list[NodeReport], *, rebuild: bool) -> tuple[Origin | None, list[NodeReport]]:
    """Find what is to blame for the first fault.

    The captured graph is lowered again, without passes: there every captured node has a value of its own, those of
    decompositions too. A fault that is there is the symbolic's, or the runtime's where ONNX's reference evaluator does not have
    it. Any other fault is of a pass, which is found by bisection.

    Args:
        compared: The comparison, a `NodeComparison`.
        reports: Its reports.
        rebuild: Whether the model is that of the record; else no pass can be found.

    Returns what is to blame, and the reports with the exact nodes.
    """
    first = next((each for each in reports if each.status == "fault"), None)
    if first is None:
        return None, reports
    if not rebuild:
        return Origin("unknown", _symbolic(first.innermost())), reports
    plain = _unoptimized(compared, 0)
    exact = plain.reports()
    suspects = {first.name, *first.merged}
    faults: dict[str, NodeReport] = {}
    for each in exact:
        if each.status == "fault":
            faults.setdefault(each.path.partition("/")[0], each)  # the first one is the innermost
    found = next((fault for name, fault in faults.items() if name in suspects), None)
    if found is None:
        name = _pass(compared, suspects)
        return Origin("pass", f"the pass {name}: without it the value is right; skip_passes={[name]} leaves it out"), reports
    merged = [_exact(each, faults) for each in reports]
    return _symbolic_or_runtime(plain.settings, found.innermost()), merged


def _exact(report: NodeReport, faults: dict[str, NodeReport]) -> NodeReport:
    """Replace the report of a fault by that of the exact node.

    It may be a node that the first one covers.
    """
    if report.status != "fault":
        return report
    return next((faults[name] for name in (*report.merged, report.name) if name in faults), report)


def _unoptimized(compared: Any, passes: int) -> Any:
    """The comparison after the first passes, with nodes of decompositions."""
    model, record = compared.record.rebuild(passes)
    return dataclasses.replace(compared, model=model, record=flattened(record))


def _pass(compared: Any, suspects: set[str]) -> str:
    """The first pass after which one of these nodes is at fault."""
    names = compared.record.passes
    low, high = 0, len(names)  # right after `low` passes, wrong after `high`
    while high - low > 1:
        middle = (low + high) // 2
        faults = {each.name for each in _unoptimized(compared, middle).reports() if each.status == "fault"}
        low, high = (middle, high) if suspects.isdisjoint(faults) else (low, middle)
    return str(names[low])


def _symbolic_or_runtime(settings: Settings, fault: NodeReport) -> Origin:
    """Run the ONNX nodes of a fault in the reference evaluator.

    The file is right where it agrees with torch.
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
