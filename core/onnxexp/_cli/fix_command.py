"""The command `onnxexp fix`: give the dynamic sizes of an ONNX file numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import OptionError

EXAMPLES = (
    (
        "onnxexp fix model.onnx batch=1 height=224 width=224 -o fixed.onnx",
        "for a phone or an accelerator",
    ),
    (
        "onnxexp fix model.onnx --shape x=1,3,224,224 -o fixed.onnx",
        "by the shape of an input, whose sizes need no names",
    ),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="an ONNX file, of any exporter")
    parser.add_argument("sizes", nargs="*", metavar="NAME=SIZE", help="a dynamic size of the inputs, and its number")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=SIZE,SIZE,...", help="the whole shape of an input (repeatable)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="where to write the model")


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the file with fixed sizes, and print what is left dynamic."""
    sizes = {name: number for name, (number,) in (_pair(text, single=True) for text in options.sizes)}
    shapes = dict(_pair(text, single=False) for text in options.shape)
    if not sizes and not shapes:
        raise OptionError("no size is given; to fix this, add one as NAME=SIZE, such as batch=1, or a --shape")
    with Progress() as progress:
        progress.stage(f"loading {options.file}")
        from onnxexp._model.fixed_sizes import dynamic_sizes, fix_sizes
        from onnxexp._model.origins import all_nodes
        from onnxexp._serialize import save
        from onnxexp._serialize.model_reader import read_model

        model = read_model(options.file)
        before = len(list(all_nodes(model)))
        progress.stage("fixing the sizes")
        fixed = fix_sizes(model, sizes, shapes)
        after, left = len(list(all_nodes(model))), dynamic_sizes(model)
        progress.stage(f"writing {options.output}")
        save(model, options.output)
    done = ", ".join(f"{name}={number}" for name, number in {**fixed, **shapes}.items())
    output.line(f"wrote {options.output} with {done}: {after} nodes (before: {before})")
    if left:
        output.line(f"still dynamic: {', '.join(left)}")
    output.document({"fixed": fixed, "shapes": shapes, "dynamic": left, "nodes": after, "nodes_before": before})
    return 0


def _pair(text: str, *, single: bool) -> tuple[str, Sequence[int]]:
    """Parse ``batch=1`` or ``x=1,3,224,224``."""
    name, _, numbers = text.rpartition("=")
    given = [number.strip() for number in numbers.split(",")]
    if not name.strip() or not all(number.isascii() and number.isdigit() for number in given) or (single and len(given) > 1):
        wanted = "NAME=SIZE, such as batch=1" if single else "INPUT=SIZE,SIZE,..., such as x=1,3,224,224"
        raise OptionError(f"{text!r} is no size; to fix this, write {wanted}")
    return name.strip(), [int(number) for number in given]
