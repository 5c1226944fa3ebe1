"""Running the `onnxexp` command in tests, and packs to run it with."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnxexp._cli import main

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Ran:
    """A finished command."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON that --json printed, which is all of standard output."""
        return json.loads(self.out)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Run a command in this process."""
    capsys.readouterr()
    status = main(list(argv))
    captured = capsys.readouterr()
    return Ran(status, captured.out, captured.err)


def separately(*argv: str, cwd: Path, path: list[Path] | None = None, code: str = "", **environment: str) -> Ran:
    """Run a command in a process of its own; `code` runs after it in the same process."""
    without_working_directory = "import sys; sys.path[:] = filter(None, sys.path)"  # -P does it from Python 3.11 on
    command = f"from onnxexp._cli import main; status = main(sys.argv[1:])\n{textwrap.dedent(code)}\nsys.exit(status)"
    start = ["-c", f"{without_working_directory}; {command}"] if code else ["-m", "onnxexp"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONNXEXP_")}
    variables |= {"PYTHONPATH": os.pathsep.join(map(str, [*(path or []), ROOT])), **environment}
    finished = subprocess.run(
        [sys.executable, *start, *argv], cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    return Ran(finished.returncode, finished.stdout, finished.stderr)


def install(
    folder: Path, name: str, value: str, *, source: str = "", distribution: str = "", version: str = "1.0", more: str = ""
) -> None:
    """Put a pack's metadata into a folder, and its module where `source` is given.

    `more` adds lines to the entry points.
    """
    distribution = distribution or f"{name}-pack"
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[onnxexp.plugins]\n{name} = {value}\n{more}")
    if source:
        (folder / f"{value.partition(':')[0]}.py").write_text(textwrap.dedent(source))


Write = Callable[..., Path]
