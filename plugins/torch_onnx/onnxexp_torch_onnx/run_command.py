"""`onnxexp run`: run a program with onnxexp in torch.onnx's place."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

SUMMARY = "run a Python program with onnxexp in place of torch.onnx: `onnxexp run -- yolo export model=yolo11n.pt format=onnx`"


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
    status = subprocess.call([sys.executable, "-m", "onnxexp_torch_onnx", *options.words])
    return status if status >= 0 else 128 - status
