"""The command `onnxexp verify`: compare an ONNX file with its PyTorch model."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxexp._cli.common_arguments import add_target
from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import OptionError, VerificationError

if TYPE_CHECKING:
    from onnxexp._checking.comparison import VerificationReport
    from onnxexp._cli.file_comparison import Comparer


EXAMPLES = (
    ("onnxexp verify mlp.onnx --against models.py:mlp --sizes batch=5", "at a batch that the export did not see"),
    (
        "onnxexp verify mlp.onnx --against models.py:mlp --find-mismatch --repro fault",
        "the first node that differs, as a script of its own in the folder fault",
    ),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the ONNX file")
    parser.add_argument("--against", required=True, metavar="MODULE:FACTORY|FILE", help="the model, as for `onnxexp export`")
    add_target(parser, dynamic=False)
    group = parser.add_argument_group("the comparison")
    group.add_argument(
        "--sizes", action="append", metavar="NAME=SIZE,...", default=[],
        help="also compare at these sizes of dynamic axes, such as batch=5,seq=12 (repeatable)",
    )  # fmt: skip
    group.add_argument("--find-mismatch", action="store_true", help="also compare node by node, and show the first that differs")
    group.add_argument("--repro", type=Path, metavar="DIR", help="write that node as a script that runs by itself to DIR")
    group.add_argument("--rtol", type=float, metavar="X", help="relative tolerance (default: by dtype)")
    group.add_argument("--atol", type=float, metavar="X", help="absolute tolerance (default: by dtype and magnitude)")


@dataclasses.dataclass(frozen=True)
class _Run:
    """One comparison.

    Attributes:
        sizes: The sizes of dynamic axes, by name.
        report: The result, None if the results cannot be compared.
        problem: The reason why they cannot be compared, else "".
    """

    sizes: dict[str, int]
    report: VerificationReport | None
    problem: str

    @property
    def ok(self) -> bool:
        return self.report is not None and self.report.ok

    @property
    def title(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items()) or "the example inputs"


def run(options: argparse.Namespace, output: Output) -> int:
    """Compare on the example inputs and at each of `--sizes`.

    Returns 1 if a result differs.
    """
    size_sets = [_sizes(text) for text in options.sizes]
    with Progress() as progress:
        progress.stage("loading torch")
        from onnxexp._cli.file_comparison import Comparer
        from onnxexp._cli.model_target import Target

        progress.stage(f"loading {options.file}")
        comparer = Comparer(options.file)
        progress.stage(f"loading {options.against}")
        target = Target.load(options.against, options.input, trusted=options.allow_pickle)
        if options.weights is not None:
            target.options["weights"] = options.weights
        comparer.against(target)
        runs = []
        for sizes in ({}, *size_sets):
            progress.stage(f"comparing at {sizes or 'the example inputs'}")
            runs.append(_compared(comparer, sizes, options))
    for each in runs:
        output.line(f"{each.title}: {each.problem or each.report}", "" if each.ok else "red")
    ok = all(each.ok for each in runs)
    differing = [] if ok else comparer.differing_weights()
    if differing:
        output.line(
            f"the file's weights differ from the model's: {', '.join(differing[:3])}{', …' if len(differing) > 3 else ''}. Does "
            f"{options.against} create random weights, or was the model trained after the export?"
        )
    located = _located(comparer, options, output) if options.find_mismatch or options.repro else {}
    output.document({"ok": ok, **located, "runs": [_document(each) for each in runs], "differing_weights": differing})
    return 0 if ok else 1


def _located(comparer: Comparer, options: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Compare node by node, print the report, and write the script."""
    report = comparer.find_mismatch(rtol=options.rtol, atol=options.atol)
    report = dataclasses.replace(report, outputs=None)  # the comparison at the example inputs has them
    output.line(str(report), "" if report.ok else "red")
    first = report.first
    if options.repro is not None and first is not None:
        output.line(f"wrote {report.export_repro(options.repro)}")
    return {"mismatch": None if first is None else {"node": first.path, "op": first.op, "symbolic": first.symbolic}}


def _compared(comparer: Comparer, sizes: dict[str, int], options: argparse.Namespace) -> _Run:
    try:
        return _Run(sizes, comparer.compare(sizes, rtol=options.rtol, atol=options.atol), "")
    except VerificationError as error:
        return _Run(sizes, None, str(error))


def _document(run_: _Run) -> dict[str, Any]:
    outputs: Sequence[Any] = run_.report.outputs if run_.report is not None else ()
    return {
        "sizes": run_.sizes,
        "ok": run_.ok,
        "problem": run_.problem,
        "outputs": [dataclasses.asdict(each) for each in outputs],
    }


def _sizes(text: str) -> dict[str, int]:
    """Parse ``batch=5,seq=12``."""
    sizes = {}
    for pair in text.split(","):
        name, _, size = pair.rpartition("=")
        if not name.strip() or not size.strip().isdigit():
            raise OptionError(f"--sizes {text}: expected NAME=SIZE,... as in batch=5,seq=12")
        sizes[name.strip()] = int(size)
    return sizes
