"""Completion with Tab: what the shells' code reads from the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.commanding import run

pytest.importorskip("argcomplete", reason="an extra of its own")
pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")

Capsys = pytest.CaptureFixture[str]
COMMAND = Path(sys.executable).with_name("onnxexp")


def completions(line: str, folder: Path) -> list[str]:
    """Complete a line, as the shells' code does."""
    found = folder / "found.txt"
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        "XDG_CACHE_HOME": str(folder),
    }
    done = subprocess.run([COMMAND], env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each.strip() for each in found.read_text("utf-8").split("\n")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("onnxexp expl", ["explain"]),
        ("onnxexp completion ", ["bash", "zsh", "fish"]),
        ("onnxexp export models.py:make --custom", ["--custom-opset"]),
        ("onnxexp plugins --without autograd,ate", ["autograd,aten"]),
        ("onnxexp verify mod", ["model.onnx"]),
    ],
)
def test_commands_options_plugins_and_files(line: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    assert completions(line, tmp_path) == expected


def test_operators_are_listed_once(tmp_path: Path) -> None:
    """The second list is read from the cache: it takes no torch."""
    assert completions("onnxexp plugins why aten::gel", tmp_path) == ["aten::gelu"]
    (cached,) = tmp_path.glob("onnxexp/operators-*.txt")
    cached.write_text("aten::gelu aten::gelled", "utf-8")
    assert completions("onnxexp ops aten::gel", tmp_path) == ["aten::gelu", "aten::gelled"]


def test_a_line_that_cannot_be_parsed_has_no_completions(tmp_path: Path) -> None:
    (tmp_path / "onnxexp.toml").write_text("plugins = 3", "utf-8")
    assert completions("onnxexp no-command --x", tmp_path) == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_of_each_shell(shell: str, capsys: Capsys, tmp_path: Path) -> None:
    ran = run(capsys, "completion", shell)
    assert ran.status == 0 and "onnxexp" in ran.out
    if shutil.which(shell):
        script = tmp_path / "code"
        script.write_text(ran.out, "utf-8")
        subprocess.run([shell, "-n", script], check=True)


def test_without_argcomplete(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete.shell_integration", None)
    ran = run(capsys, "completion", "bash")
    assert ran.status == 2 and 'to fix this, run pip install "onnxexp[completion]"' in ran.err
