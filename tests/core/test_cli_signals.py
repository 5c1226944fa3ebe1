"""A command that a signal ends cleans up, and so do the commands of plugins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from onnxexp.cli import main
from onnxexp.cli.signals import Terminated, signals_raised
from tests.core.commanding import ROOT, install

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without a signal")

_SLOW = """
    import sys, time
    from onnxexp.serialize.atomic_file import NewFile

    def wait(file):
        print("writing", flush=True)
        time.sleep(60)

    NewFile.complete = wait
"""
_MODELS = f"""{_SLOW}
    import torch

    def relu():
        return torch.nn.ReLU(), (torch.ones(2, 3),)
"""
_COMMAND = f"""{_SLOW}
    from pathlib import Path
    from onnxexp.serialize.atomic_file import write_file

    SUMMARY = "write a file"

    def arguments(parser):
        parser.add_argument("file", type=Path)

    def run(options, output):
        write_file(options.file, "new")
        return 0
"""


def started(folder: Path, plugin: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command, and wait until it writes."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONNXEXP_")}
    variables |= {"PYTHONPATH": os.pathsep.join([str(folder / "packs"), str(ROOT)]), "ONNXEXP_PLUGINS": plugin}
    process = subprocess.Popen(
        [sys.executable, "-m", "onnxexp", *arguments],
        cwd=folder / "here", env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    return process


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a model and an old file, and a pack with a command elsewhere."""
    install(tmp_path / "packs", "tiny", "tests.core.tiny:TINY")
    more = "[onnxexp.commands]\nslow = slow_command\n"
    install(tmp_path / "packs", "slow", "slow_command:PLUGIN", source=_COMMAND, more=more)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "models.py").write_text(_text(_MODELS))
    (tmp_path / "here" / "model.onnx").write_text("old")
    return tmp_path


def _text(source: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in source.splitlines())


def test_a_signal_ends_an_export_without_litter(place: Path) -> None:
    process = started(place, "tiny", "export", "models.py:relu", "-o", "model.onnx")
    assert any(name.startswith(".onnxexp-") for name in os.listdir(place / "here"))
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors == "onnxexp: ended by SIGTERM\n"
    assert {*os.listdir(place / "here")} - {"__pycache__"} == {"models.py", "model.onnx"}
    assert (place / "here" / "model.onnx").read_text() == "old"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_command_of_a_plugin_without_litter(number: signal.Signals, place: Path) -> None:
    process = started(place, "slow", "slow", "model.onnx")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number and errors == f"onnxexp: ended by {number.name}\n"
    assert sorted(os.listdir(place / "here")) == ["model.onnx", "models.py"]


def test_later_signals_are_ignored_while_it_cleans_up() -> None:
    cleaned = []

    def ended() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            cleaned.append(True)

    with pytest.raises(Terminated, match="ended by SIGTERM"), signals_raised():
        ended()
    assert cleaned


def test_handlers_are_restored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with signals_raised():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_sets_no_handlers() -> None:
    found = []

    def enter() -> None:
        with signals_raised():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_a_forked_child_ends_at_the_signal() -> None:
    with signals_raised():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
