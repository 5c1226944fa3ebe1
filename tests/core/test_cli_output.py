"""The command as a whole: usage, help, JSON, terminals and other encodings."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import onnxexp
from onnxexp._cli import COMMANDS as BUILT_IN
from onnxexp._cli.text_or_json import Output, readable
from tests.core.commanding import ROOT, install, run, separately

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a working directory with models.py, and a pack elsewhere."""
    install(tmp_path / "packs", "tiny", "tests.core.tiny:TINY")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "packs")
    monkeypatch.setenv("ONNXEXP_PLUGINS", "tiny")
    Path("models.py").write_text("import torch\n\ndef relu():\n    return torch.nn.ReLU(), (torch.ones(2, 3),)\n")
    return tmp_path


COMMANDS = {
    "export": ["export", "models.py:relu", "-o", "model.onnx"],
    "check": ["check", "models.py:relu"],
    "verify": ["verify", "model.onnx", "--against", "models.py:relu"],
    "explain": ["explain", "model.onnx"],
    "diff": ["diff", "model.onnx", "model.onnx"],
    "fix": ["fix", "model.onnx", "--shape", "input=2,3", "-o", "fixed.onnx"],
    "plugins": ["plugins"],
    "plugins --load": ["plugins", "--load"],
    "plugins why": ["plugins", "why", "aten::relu"],
    "ops": ["ops", "relu"],
    "config": ["config"],
    "doctor": ["doctor"],
    "new-plugin": ["new-plugin", "pack-of-the-output-test"],
    "completion": ["completion", "bash"],
}


def test_no_command_is_forgotten() -> None:
    assert {name.split()[0] for name in COMMANDS} == set(BUILT_IN)


def test_every_command_speaks_json_and_plain_text(place: Path, capsys: Capsys) -> None:
    for arguments in COMMANDS.values():
        ran = run(capsys, *arguments, "--json")
        assert ran.status == 0, (arguments, ran.err)
        assert ran.document is not None and ran.out.isascii()
        if arguments[0] == "new-plugin":
            arguments = ["new-plugin", "another-pack-of-the-output-test"]
        ran = run(capsys, *arguments)
        assert ran.status == 0, (arguments, ran.err)
        assert ran.out.strip() and "\x1b" not in ran.out and not set("│─╭┃━") & set(ran.out)


@pytest.mark.parametrize("command", [[], *([name] for name in BUILT_IN), ["plugins", "why"]])
def test_help(command: list[str], capsys: Capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(capsys, *command, "--help")
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: onnxexp") and ("--json" in text) == bool(command)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "arguments are required: COMMAND"),
        (["exprot"], "invalid choice: 'exprot'"),
        (["export", "a:b"], "the following arguments are required: -o/--output"),
        (["export", "a:b", "-o", "c", "--external-data", "--one-file"], "not allowed with argument"),
        (["config", "--opset", "many"], "invalid int value: 'many'"),
        (["config", "--colour"], "unrecognized arguments: --colour"),
        (["export", "a:b", "-o", "c", "--dynamc", "x:0=n"], "--dynamc x:0=n (did you mean '--dynamic'?)"),
        (["plugins", "why", "aten::gelu", "--opsets", "9"], "--opsets 9 (did you mean '--opset'?)"),
        (["plugins", "why"], "arguments are required: OP"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: Capsys) -> None:
    ran = run(capsys, *arguments)
    assert ran.status == 2 and ran.out == "" and ran.err.startswith("usage: onnxexp") and message in ran.err
    assert message in run(capsys, *arguments, "--json").document["error"]["message"]


def test_the_version(capsys: Capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(capsys, "--version")
    assert stopped.value.code == 0 and capsys.readouterr().out == f"onnxexp {onnxexp.__version__}\n"


def test_an_unexpected_error_is_one_message(place: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise ZeroDivisionError("out of nowhere")

    monkeypatch.setattr("onnxexp._cli.config_command._text", fail)
    ran = run(capsys, "config")
    assert ran.status == 2 and "onnxexp: ZeroDivisionError: out of nowhere" in ran.err and "Traceback" not in ran.err
    assert "--traceback" in ran.err
    assert "in fail" in run(capsys, "config", "--traceback").err


def test_a_reader_that_leaves_early(place: Path) -> None:
    code = "import sys; from onnxexp._cli import main; sys.exit(main(['plugins']))"
    for number in range(300):
        install(
            place / "many", f"pack{number}", f"pack_{number}:table", distribution=f"a-pack-with-a-long-name-{number}" + "x" * 200
        )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place / "many"), str(ROOT)])}
    del variables["ONNXEXP_PLUGINS"]
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)
    assert running.stdout is not None and running.stderr is not None
    running.stdout.read(10)
    running.stdout.close()
    complaints = running.stderr.read()
    running.stderr.close()
    assert running.wait(60) == 0 and complaints == b""


# Encodings


@pytest.mark.parametrize(
    ("encoding", "expected"), [("ascii", "2x3 - \\u03b1 ..."), ("cp1252", "2×3 – \\u03b1 …"), ("utf-8", "2×3 – α …")]
)
def test_text_fits_the_encoding(encoding: str, expected: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    shown = readable("2×3 – α …", stream)
    shown.encode(encoding)
    if encoding == "cp1252":  # it has these three characters, but what it lacks is replaced together with them
        assert shown in (expected, "2x3 - \\u03b1 ...")
    else:
        assert shown == expected


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_unicode(place: Path, encoding: str) -> None:
    """A module with a Greek name in an error, and every table."""
    Path("greek.py").write_text("def α():\n    raise ValueError('β')\n", encoding="utf-8")
    for arguments in (["plugins"], ["config"], ["ops", "relu"], ["export", "greek.py:α", "-o", "model.onnx"]):
        ran = separately(
            *arguments, cwd=Path.cwd(), path=[place / "packs"], PYTHONIOENCODING=encoding, PYTHONUTF8="0", ONNXEXP_PLUGINS="tiny"
        )
        assert ran.status == (2 if "export" in arguments else 0), ran.err
        assert "UnicodeEncodeError" not in ran.err and (ran.out + ran.err).isascii()
    assert "\\u03b2" in ran.err


# Terminals


class Terminal(io.StringIO):
    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def shown(terminal: Terminal) -> str:
    output = Output(False, terminal)
    output.table(["name", "state", "empty"], [["[bold]a[/bold]", "broken", ""], ["b", "on", ""]])
    output.line("problem: [red]x[/red]", "red")
    return terminal.getvalue()


def test_a_terminal_gets_boxes_and_colours(colours: None) -> None:
    text = shown(Terminal())
    assert "╭" in text and "\x1b[31m" in text and "empty" not in text
    assert "[bold]a[/bold]" in text and "[red]x[/red]" in text


def test_a_terminal_of_ascii_gets_ascii(colours: None) -> None:
    text = shown(Terminal("ascii"))
    assert text.isascii() and "\x1b[31m" in text and "+--" in text


@pytest.mark.parametrize("setting", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colours(colours: None, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str]) -> None:
    monkeypatch.setenv(*setting)
    text = shown(Terminal())
    assert "\x1b" not in text and text.splitlines()[:2] == ["name            state", "--------------  ------"]


SLOW = """
    import time
    import torch

    class Slow(torch.nn.Module):
        def forward(self, x):
            time.sleep(0.5)
            return torch.relu(x)

    def make():
        time.sleep(0.5)
        return Slow(), (torch.ones(2),)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_progress_on_a_terminal(place: Path, colours: None) -> None:
    import pty

    Path("slow.py").write_text(textwrap.dedent(SLOW))
    leader, follower = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place / "packs"), str(ROOT)]), "COLUMNS": "100"}
    arguments = ["export", "slow.py:make", "-o", "model.onnx", "--verify"]
    running = subprocess.Popen(
        [sys.executable, "-m", "onnxexp", *arguments], stdout=subprocess.PIPE, stderr=follower, env=variables, text=True
    )
    os.close(follower)
    told = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux's way of saying that the other end is closed
            break
        if not part:
            break
        told += part
    os.close(leader)
    out = running.communicate(timeout=60)[0]
    assert running.returncode == 0 and out.startswith("wrote ") and "\x1b" not in out
    for stage in (b"loading torch", b"loading slow.py:make", b"capturing the model", b"comparing with the model"):
        assert stage in told
    assert re.search(rb"\d s  capturing the model", told)


# Standard streams that are closed or full

SHELL = pytest.mark.skipif(sys.platform == "win32", reason="the redirections are those of a Unix shell")


def redirected(words: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's command line with `onnxexp` in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])}
    command = f'"{sys.executable}" -m onnxexp {words}'
    return subprocess.run(["sh", "-c", command], env=variables, capture_output=True, text=True, timeout=120, check=False)


@SHELL
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["plugins", "plugins --json", "config"])
def test_a_closed_standard_output_is_no_error(place: Path, words: str, closed: str) -> None:
    ran = redirected(f"{words} {closed}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@SHELL
def test_an_error_keeps_its_status_without_standard_error(place: Path) -> None:
    assert redirected("no-such-command 2>&-").returncode == 2
    if Path("/dev/full").exists():
        assert redirected("no-such-command 2>/dev/full").returncode == 2


@SHELL
@pytest.mark.full
def test_no_file_of_the_command_gets_a_closed_descriptor(place: Path) -> None:
    """A library that prints to descriptor 1 or 2 would else write into that file."""
    Path("printing.py").write_text("import os\n\nos.write(1, b'printed')\nos.write(2, b'printed')\nfrom models import relu\n")
    ran = redirected("export printing.py:relu -o model.onnx <&- >&- 2>&-")
    assert ran.returncode == 0
    assert all(b"printed" not in path.read_bytes() for path in Path.cwd().glob("model*"))


@SHELL
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
@pytest.mark.parametrize("words", ["plugins", "plugins --json", "config"])
def test_a_full_disk_is_named(place: Path, words: str) -> None:
    ran = redirected(f"{words} >/dev/full")
    assert ran.returncode == 2 and "standard output cannot be written: No space left on device; to fix this, " in ran.stderr
    assert "bug" not in ran.stderr and "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr
