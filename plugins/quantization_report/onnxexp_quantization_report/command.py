"""The command `onnxexp quantization-report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from onnxexp.commands import Output, Progress, temporary_folder

if TYPE_CHECKING:
    from onnxexp_quantization_report.report import Report

SUMMARY = "show which layers of a quantized ONNX file ONNX Runtime runs as integers, which fall back to float, and why"


EXAMPLES = (
    ("onnxexp quantization-report model.onnx --html report.html", "what runs as integers, with a page of bar charts"),
    ("onnxexp quantization-report model.onnx --strict", "for a build that fails if a layer fell back to float"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the ONNX file")
    parser.add_argument(
        "--against", metavar="FLOAT.onnx|MODULE:FACTORY", help="the float model, for the error of each layer: an ONNX file, or a "
        "model as for `onnxexp export`",
    )  # fmt: skip
    parser.add_argument("--input", type=Path, metavar="FILE.npz", help="the inputs by name (default: random ones)")
    parser.add_argument(
        "--sizes", action="append", metavar="NAME=SIZE,...", default=[],
        help="sizes of dynamic axes for the random inputs, such as batch=5,seq=12 (default: 1 for a first axis, 32 for another)",
    )  # fmt: skip
    parser.add_argument("--runs", type=int, metavar="N", default=10, help="how often to run for the times (default: 10)")
    parser.add_argument(
        "--threads", type=int, metavar="N", default=0, help="ONNX Runtime's threads (default: as many as it takes)"
    )
    parser.add_argument("--html", type=Path, metavar="FILE.html", help="also write a page with bar charts")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a layer fell back to float")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the report; return 1 with `--strict` if a layer fell back to float."""
    with Progress() as progress, temporary_folder() as folder:
        progress.stage("loading ONNX Runtime")
        from onnxexp_quantization_report.report import make

        report = make(options, Path(folder), progress)
    _print(report, output)
    if options.html is not None:
        from onnxexp_quantization_report.page import write

        output.line(f"\nwrote {write(report, options.html)}")
    output.document(report.document())
    return int(options.strict and bool(report.fallen_back))


def _print(report: Report, output: Output) -> None:
    output.table(
        ["layer", "operator", "ran as", "state", "time", "SQNR", "max. error", "why"],
        [
            [
                each.name, each.operator, each.ran_as or "?", each.state, report.share(each),
                report.decibels(each), report.error(each), each.reason,
            ]
            for each in report.layers
        ],
    )  # fmt: skip
    output.line()
    for line in report.fixes():
        output.line(line, "yellow")
    output.line(f"times: {report.times()}")
    for line in report.summary():
        output.line(line, "red" if report.fallen_back else "green")
