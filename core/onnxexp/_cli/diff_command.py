"""The command `onnxexp diff`: show the changes between two exports, by module."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from onnxexp._cli.text_or_json import Output, Progress

EXAMPLES = (
    ("onnxexp diff before.onnx after.onnx", "the nodes and weights that changed, by module"),
    ("onnxexp diff before.onnx after.onnx --json", "the same for a program"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("first", type=Path, metavar="A", help="an ONNX file")
    parser.add_argument("second", type=Path, metavar="B", help="another ONNX file")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the differences, and return 1 if there are any."""
    with Progress() as progress:
        progress.stage("loading the files")
        from onnxexp._checking.model_diff import diff_models
        from onnxexp._serialize.model_reader import read_model

        diff = diff_models(read_model(options.first), read_model(options.second))
    for line in diff.header:
        output.line(line)
    for module in diff.modules:
        output.line(f"[{module.scope or 'outside of all modules'}]")
        for line in module.lines:
            output.line("  " + line.replace("\n", "\n    "), "red" if line.startswith("-") else "green")
    if diff.weights:
        output.line("weights")
        for line in diff.weights:
            output.line(f"  {line}")
    if not diff:
        output.line("the models are equal, but for the names of values and nodes", "green")
    output.document({"equal": not diff, **dataclasses.asdict(diff)})
    return 1 if diff else 0
