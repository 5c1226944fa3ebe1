"""Find the first captured node whose ONNX value differs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._checking.block_comparison import compare_blocks
from onnxexp._checking.comparison import Tolerances, VerificationReport, compare, run_eager
from onnxexp._checking.counterparts import Counterparts
from onnxexp._checking.exported import Exported, opener
from onnxexp._checking.fault_origin import find_origin
from onnxexp._checking.graph_comparison import GraphComparison, Settings
from onnxexp._checking.mismatch_report import MismatchReport, NodeReport
from onnxexp._checking.onnx_slices import Runner, SlicedRun
from onnxexp._checking.verification import random_outputs
from onnxexp._errors import OptionError
from onnxexp._model.origins import LoweringRecord
from onnxexp._neutral_graph import Value


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
    with _quiet():
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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings inside the `with`, since the export has given them already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
