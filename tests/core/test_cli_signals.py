"""A command that a signal ends cleans up, and so do the commands of plugins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from onnxexp._cli import Terminated, main, signals_raised
from tests.core.commanding import ROOT, install

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without a signal")

_SLOW = """
    import sys, time
    from onnxexp._cli import main
    from onnxexp._serialize.atomic_file import NewFile

    slow, complete = sys.argv.pop(1), NewFile.complete

    def wait(file):
        if file.path.endswith(slow):
            print("writing", flush=True)
            time.sleep(60)
        complete(file)

    NewFile.complete = wait
    sys.exit(main())
"""
_MODELS = """
    import torch

    def relu():
        return torch.nn.ReLU(), (torch.ones(2, 3),)
"""
_COMMAND = """
    from pathlib import Path
    from onnxexp._serialize.atomic_file import OutputFile

    SUMMARY = "write a file"

    def arguments(parser):
        parser.add_argument("file", type=Path)

    def run(options, output):
        OutputFile(options.file).write("new")
        return 0
"""


def started(folder: Path, plugins: str, slow: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command, and wait until it has written the slow file but not closed it."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONNXEXP_")}
    variables |= {"PYTHONPATH": os.pathsep.join([str(folder / "packs"), str(ROOT)]), "ONNXEXP_PLUGINS": plugins}
    (folder / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_SLOW), slow, *arguments],
        cwd=folder / "here", env=variables | {"TMPDIR": str(folder / "temporary")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    return process


def hidden(folder: Path) -> list[str]:
    """List the hidden files and folders of this project at any depth."""
    return [str(path) for path in folder.rglob(".onnxexp-*")]


def check_end(process: subprocess.Popen[str], number: signal.Signals, folder: Path) -> None:
    """Send a signal to a process that writes; check its end, and that nothing is left."""
    assert hidden(folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number and errors.splitlines()[-1] == f"onnxexp: ended by {number.name}"
    assert not hidden(folder)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Provide a folder with a model and old files, and packs elsewhere."""
    install(tmp_path / "packs", "tiny", "tests.core.tiny:TINY")
    more = "[onnxexp.commands]\nslow = slow_command\n"
    install(tmp_path / "packs", "slow", "slow_command:PLUGIN", source=_COMMAND, more=more)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "models.py").write_text(textwrap.dedent(_MODELS))
    for name in ("model.onnx", "page.html"):
        (tmp_path / "here" / name).write_text("old")
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--external-data"]], ids=["one file", "two"])
def test_a_signal_ends_an_export_without_litter(more: list[str], place: Path) -> None:
    process = started(place, "tiny", "model.onnx", "export", "models.py:relu", "-o", "model.onnx", *more)
    check_end(process, signal.SIGTERM, place)
    assert {*os.listdir(place / "here")} - {"__pycache__"} == {"models.py", "model.onnx", "page.html"}
    assert (place / "here" / "model.onnx").read_text() == "old"


def test_a_signal_ends_a_report_without_litter(place: Path) -> None:
    pytest.importorskip("onnxexp_report")
    words = ("export", "models.py:relu", "-o", "new.onnx", "--report", "page.html")
    check_end(started(place, "tiny,report", "page.html", *words), signal.SIGTERM, place)
    assert (place / "here" / "page.html").read_text() == "old"


def test_a_signal_ends_the_page_of_a_sweep_without_litter(place: Path) -> None:
    pytest.importorskip("onnxexp_sweep")
    from onnxexp_sweep.results import Results

    with Results(place / "here" / "results"):
        pass
    check_end(started(place, "tiny", "page.html", "sweep", "-o", "results", "--html", "page.html"), signal.SIGTERM, place)
    assert (place / "here" / "page.html").read_text() == "old"


@pytest.mark.full
def test_a_signal_ends_the_export_of_a_checkpoint_without_litter(place: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("onnxexp_transformers")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=20, **sizes)).save_pretrained(place / "here" / "bert")
    words = ("export", "hf:bert", "--task", "fill-mask", "-o", "out")
    check_end(started(place, "aten,transformers", "model.onnx", *words), signal.SIGTERM, place)
    assert "out" not in os.listdir(place / "here")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_command_of_a_plugin_without_litter(number: signal.Signals, place: Path) -> None:
    check_end(started(place, "slow", "model.onnx", "slow", "model.onnx"), number, place)
    assert sorted(os.listdir(place / "here")) == ["model.onnx", "models.py", "page.html"]


def test_later_signals_are_ignored_while_it_cleans_up() -> None:
    cleaned = False
    with pytest.raises(Terminated, match="ended by SIGTERM"), signals_raised():  # noqa: PT012 - two signals, one after the other
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            cleaned = True
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
