"""Run a Python program with onnxexp in torch.onnx's place.

``python -m onnxexp_torch_onnx PROGRAM …``: a script's path, ``-m`` and a module, or the name of an installed command.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from importlib_metadata import entry_points

from onnxexp_torch_onnx.installation import VARIABLE, install

_PARSER = argparse.ArgumentParser(
    prog="python -m onnxexp_torch_onnx", usage="%(prog)s [--] {SCRIPT.py | -m MODULE | COMMAND} [its arguments]"
)


def main(words: Sequence[str]) -> Any:
    """Run a program; return what its function returns, an exit status as a rule."""
    words = list(words[1:] if words[:1] == ["--"] else words)
    if not words or words == ["-m"]:
        _end_with_usage("there is no program")
    os.environ[VARIABLE] = "1"  # for the processes that the program starts
    install()
    name, *rest = words
    if name == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = words
    if name.endswith(".py") or len(Path(name).parts) > 1:  # a file of the working directory is no command
        return _run_script(name)
    for point in entry_points(group="console_scripts", name=name):
        return point.load()()
    found = shutil.which(name)
    if found is not None and _is_python(Path(found)):
        return _run_script(found)
    return _end_with_usage(f"there is no script, module or command {name!r} of Python")


def _end_with_usage(problem: str) -> NoReturn:
    _PARSER.error(f"{problem}; to fix this, give a script's path, -m and a module, or the name of an installed command")


def _run_script(path: str) -> int:
    sys.path.insert(0, str(Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")
    return 0


def _is_python(path: Path) -> bool:
    with path.open("rb") as file:
        line = file.readline(200)
    return line.startswith(b"#!") and b"python" in line


if __name__ == "__main__":
    sys.path[:1] = [each for each in sys.path[:1] if each != os.getcwd()]  # Python put that there, for -m
    sys.exit(main(sys.argv[1:]))
