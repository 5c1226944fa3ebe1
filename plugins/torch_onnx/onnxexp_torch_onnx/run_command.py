"""`onnxexp run`: run a program with onnxexp in torch.onnx's place."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

SUMMARY = "run a Python program with onnxexp in place of torch.onnx: `onnxexp run -- yolo export model=yolo11n.pt format=onnx`"

_RUN = "import sys; sys.path.remove(''); from onnxexp_torch_onnx.__main__ import main; sys.exit(main(sys.argv[1:]))"
"""The working directory is no place for imports: a file `onnx.py` in it would run."""


EXAMPLES = (
    ("onnxexp run -- yolo export model=yolo11n.pt format=onnx", "the command of a library"),
    ("onnxexp run export.py --size 224", "a script with its arguments"),
    ("onnxexp run -- -m package.export", "a module"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="a script's path, `-m` and a module, or the name of an installed command; its own arguments follow",
    )


def run(options: Any, output: Any) -> int:
    """Run the program in a process of its own; return its exit status."""
    status = subprocess.call([sys.executable, "-c", _RUN, *options.words])
    return status if status >= 0 else 128 - status
