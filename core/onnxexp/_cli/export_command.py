"""The command `onnxexp export`: write a model as ONNX."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxexp._cli.export_call import Prepared, add_arguments, flags_in_messages, prepare
from onnxexp._cli.standard_streams import complain
from onnxexp._cli.text_or_json import Output, Progress, readable
from onnxexp._errors import LoweringError, OnnxExporterError, VerificationError

if TYPE_CHECKING:
    from onnxexp._checking.comparison import VerificationReport
    from onnxexp._program.program import ONNXProgram
    from onnxexp._serialize import SavedFile

_LOADING = "load torch and the model"
"""The stage before the export, which is not part of its time."""


EXAMPLES = (
    (
        "onnxexp export models.py:mlp -o mlp.onnx --dynamic input:0=batch --verify",
        "with a dynamic batch, and compared with the model",
    ),
    (
        "onnxexp export models.py:mlp -o mlp.onnx --opset 13 --report mlp.html --errors",
        "for an older runtime, with a page that shows the error of each node",
    ),
    (
        "onnxexp export hf:checkpoint --task text-generation -o folder",
        "a language model with its key-value cache, by onnxexp-plugin-transformers",
    ),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="where to write the model")
    group = parser.add_argument_group("the file")
    files = group.add_mutually_exclusive_group()
    files.add_argument("--external-data", action="store_true", help="put the weights into a second file beside FILE")
    files.add_argument("--one-file", action="store_true", help="never write a second file (default: only above 2 GB)")
    group.add_argument(
        "--verify", nargs="?", const=True, default=False, choices=[True, "sizes"], metavar="sizes",
        help="compare with the model in ONNX Runtime before FILE is written, on the example inputs, repeated to other sizes of "
        "the dynamic axes; sizes: on random inputs too. Where they differ, the first node that does is shown",
    )  # fmt: skip
    group.add_argument(
        "--strip", action="store_true", help="leave the origin of each node out of the file, see `onnxexp explain`"
    )
    group.add_argument("--report", type=Path, metavar="FILE", help="write a page about the model (needs onnxexp-plugin-report)")
    group.add_argument("--profile", action="store_true", help="show in it the time of each operator in ONNX Runtime")
    group.add_argument("--errors", action="store_true", help="show in it the error of each node")
    group.add_argument("--print", action="store_true", help="print the finished graph")


def run(options: argparse.Namespace, output: Output) -> int:
    """Export and write a model, verify it on demand, and print a summary.

    Returns 1 if the verification finds differences.
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, Progress() as progress:
        warnings.simplefilter("default")
        try:
            program, saved, verdict = _export(options, progress)
            if options.report is not None:
                progress.stage(f"writing {options.report}")
                begin = time.perf_counter()
                program.report(
                    options.report,
                    mismatch=options.errors or bool(verdict.difference),
                    profile=options.profile,
                    warnings=_remarks(caught),
                )
                program.timings["report"] = time.perf_counter() - begin
        except BaseException:
            for remark in _remarks(caught):  # they may explain the error
                complain(readable(f"warning: {remark}", sys.stderr))
            raise
    seconds = time.perf_counter() - started - program.timings[_LOADING]
    remarks = _remarks(caught)
    if options.print:
        output.line(str(program))
        output.line()
    _summary(output, program, saved, seconds)
    for remark in remarks:
        output.line(f"warning: {remark}", "yellow")
    if verdict.difference is not None:
        output.line(verdict.difference or verdict.agreement, "red" if verdict.difference else "green")
    output.document({**_document(program, saved, seconds), "warnings": remarks, **_verdict(verdict.difference)})
    return 1 if verdict.difference else 0


class _Verdict(NamedTuple):
    """The result of a verification.

    Attributes:
        difference: None without a verification, "" if all outputs agree.
        agreement: The comparisons in words, if all outputs agree.
    """

    difference: str | None = None
    agreement: str = ""


def _agreement(report: VerificationReport) -> str:
    compared = ["the example", *(case.inputs for case in report.cases if case.inputs and "example" not in case.inputs)]
    text = f"verified: every output agrees with the model's\ncompared: {'; '.join(compared)}"
    return "\n".join([text, *(f"not compared: {skipped}" for skipped in report.skipped)])


def _export(options: argparse.Namespace, progress: Progress) -> tuple[ONNXProgram, SavedFile, _Verdict]:
    """Return the program, the written files, and the result of the verification."""
    begin = time.perf_counter()
    prepared = prepare(options, progress)
    loading = time.perf_counter() - begin
    from onnxexp._pipeline import export
    from onnxexp._serialize import SavedFile

    external = prepared.options.pop("external_data", None)
    external = True if options.external_data else False if options.one_file else external
    verify = options.verify or prepared.options.pop("verify", False)
    prepared.options.pop("verify", None)
    try:
        with flags_in_messages(options):
            program = export(prepared.model, prepared.args, **prepared.options)
    except LoweringError as error:
        if options.report is not None:
            progress.stage(f"writing {options.report}")
            _report_problems(prepared, error, options.report)
        raise
    program.timings = {_LOADING: loading, **program.timings}
    verdict = _Verdict()
    if verify:
        progress.stage("comparing with the model in ONNX Runtime")
        begin = time.perf_counter()
        try:
            verdict = _Verdict("", _agreement(program.verify(inputs=verify if isinstance(verify, str) else "repeated")))
        except VerificationError as error:
            progress.stage("looking for the first node that differs")
            located = f"{error}\n{_located(program)}"
            return program, SavedFile((), 0), _Verdict(f"{located}\nnothing is written: {options.output} stays as it was")
        finally:
            program.timings["verify"] = time.perf_counter() - begin
    progress.stage(f"writing {options.output}")
    begin = time.perf_counter()
    saved = program.save(options.output, external_data=external, strip=options.strip or prepared.options.pop("strip", False))
    program.timings["write"] = time.perf_counter() - begin
    return program, saved, verdict


def _report_problems(prepared: Prepared, error: LoweringError, path: Path) -> None:
    """Write a report on a model with operators that cannot be lowered.

    The report shows an export that keeps these operators.
    """
    from onnxexp._pipeline import export

    with contextlib.suppress(OnnxExporterError):  # the first error is raised all the same
        program = export(prepared.model, prepared.args, **{**prepared.options, "operator_export_type": "ONNX_FALLTHROUGH"})
        program.report(path, problems=[str(error)])


def _located(program: ONNXProgram) -> str:
    try:
        return str(dataclasses.replace(program.find_mismatch(), outputs=None))  # the outputs are in the text already
    except OnnxExporterError as error:  # the difference itself is reported all the same
        return f"the node cannot be located: {error}"


def _summary(output: Output, program: ONNXProgram, saved: SavedFile, seconds: float) -> None:
    from onnxexp._model.model_text import initializers_text
    from onnxexp._model.type_text import bytes_text, type_text

    graph = program.model.graph
    stages = [f"{stage} {spent:.2f}" for stage, spent in program.timings.items() if stage != _LOADING and spent >= 0.005]
    paths = " and ".join(map(str, saved.paths)) or "nothing"
    output.pairs(
        {
            "wrote": f"{paths} ({bytes_text(saved.bytes)})",
            "inputs": ", ".join(f"{value.name}: {type_text(value)}" for value in graph.inputs) or "none",
            "outputs": ", ".join(f"{value.name}: {type_text(value)}" for value in graph.outputs) or "none",
            "nodes": f"{len(graph)} at opset {program.model.opset_imports.get('')}",
            "weights": initializers_text(graph),
            "plugins": ", ".join(_packs(program)) or "none",
            "seconds": f"{seconds:.2f} ({', '.join(stages)}), after {program.timings[_LOADING]:.2f} to {_LOADING}",
        }
    )


def _packs(program: ONNXProgram) -> list[str]:
    """Return the plugins that took part, with their distributions' versions."""
    return [plugin.origin or plugin.name for plugin in program.plugins]


def _document(program: ONNXProgram, saved: SavedFile, seconds: float) -> dict[str, Any]:
    from onnxexp._model.type_text import type_text

    graph = program.model.graph
    return {
        "paths": [str(path) for path in saved.paths],
        "bytes": saved.bytes,
        "opset": program.model.opset_imports.get(""),
        "inputs": {value.name: type_text(value) for value in graph.inputs},
        "outputs": {value.name: type_text(value) for value in graph.outputs},
        "nodes": len(graph),
        "plugins": [{"name": each.name, "distribution": each.distribution, "version": each.version} for each in program.plugins],
        "seconds": seconds,
        "stages": program.timings,
        "passes": program.pass_timings,
    }


def _verdict(difference: str | None) -> dict[str, Any]:
    return {} if difference is None else {"verified": not difference, "difference": difference}


def _remarks(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Return each warning once, without those addressed to developers of libraries."""
    quiet = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)
    return list(dict.fromkeys(str(each.message).strip() for each in caught if not issubclass(each.category, quiet)))
