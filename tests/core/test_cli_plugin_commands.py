"""Commands that plugins add to `onnxexp`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onnxexp._cli import COMMANDS, plugin_commands
from tests.core.commanding import Ran, install, run, separately

Capsys = pytest.CaptureFixture[str]

TABLE = "import onnxexp\ntable = onnxexp.SymbolicTable('own')\n"
COMMAND = """
    SUMMARY = "count to a number, at 100 %"

    def arguments(parser):
        parser.add_argument("number", type=int)
        parser.add_argument("--by", type=int, default=1)

    def run(options, output):
        numbers = list(range(0, options.number, options.by))
        output.line(" ".join(map(str, numbers)))
        output.document(numbers)
        return 0 if numbers else 1
"""


class Packs:
    """A folder of packs on `sys.path`; each pack has a plugin and a command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unique = f"{abs(hash(folder))}"

    def add(self, command: str, source: str = COMMAND, *, plugin: str = "", distribution: str = "") -> str:
        """Install a pack; return the name of its command's module."""
        plugin = plugin or f"{command}-plugin"
        module = f"{command.replace('-', '_')}_{self.unique}"
        text = f"[onnxexp.commands]\n{command} = {module}\n"
        install(
            self.folder, plugin, f"table_{module}:table", source=TABLE, distribution=distribution or f"{command}-pack", more=text
        )
        lines = [line.removeprefix("    ") for line in source.splitlines()]
        (self.folder / f"{module}.py").write_text("\n".join(lines) + "\n")
        return module


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packs:
    (tmp_path / "packs").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "packs")
    monkeypatch.delenv("ONNXEXP_PLUGINS", raising=False)
    return Packs(tmp_path / "packs")


def help_text(capsys: Capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        run(capsys, *argv, "--help")
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_a_scheme_takes_the_place_of_export(packs: Packs, capsys: Capsys) -> None:
    packs.add("maps", COMMAND.replace('"number", type=int', '"number", type=lambda text: int(text.removeprefix("maps:"))'))
    metadata = next(packs.folder.glob("*.dist-info/entry_points.txt"))
    metadata.write_text(metadata.read_text().replace("[onnxexp.commands]", "[onnxexp.targets]"))
    assert run(capsys, "export", "maps:6", "--by", "2").out == "0 2 4\n"
    assert run(capsys, "export", "--by", "2", "maps:3", "--json").document == [0, 2]
    assert "--by" in help_text(capsys, "export", "maps:1") and "--by" not in help_text(capsys, "export")
    refused(run(capsys, "export", "map:6", "-o", "x.onnx"), "there is no module 'map'")  # no scheme: MODULE:FACTORY
    refused(run(capsys, "maps", "6"), "invalid choice: 'maps'")


def test_a_scheme_of_a_plugin_that_is_off(packs: Packs, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    packs.add("maps")
    metadata = next(packs.folder.glob("*.dist-info/entry_points.txt"))
    metadata.write_text(metadata.read_text().replace("[onnxexp.commands]", "[onnxexp.targets]"))
    monkeypatch.setenv("ONNXEXP_DISABLE", "maps-plugin")
    refused(run(capsys, "export", "maps:6"), "maps-plugin", "is off", "ONNXEXP_DISABLE")


def refused(ran: Ran, *texts: str) -> None:
    assert ran.status == 2 and ran.out == "" and all(text in ran.err for text in texts), ran.err


def test_a_command_runs(packs: Packs, capsys: Capsys) -> None:
    packs.add("count")
    ran = run(capsys, "count", "6", "--by", "2")
    assert (ran.status, ran.out) == (0, "0 2 4\n")
    assert run(capsys, "count", "3", "--json").document == [0, 1, 2]
    assert run(capsys, "count", "0").status == 1
    refused(run(capsys, "count", "x"), "usage: onnxexp count", "invalid int value: 'x'")
    refused(run(capsys, "count", "6", "--bu", "2"), "did you mean '--by'?")


def test_help_lists_it(packs: Packs, capsys: Capsys) -> None:
    packs.add("count")
    assert "count to a number, at 100 %" in help_text(capsys)
    assert "export " in help_text(capsys)
    text = help_text(capsys, "count")
    assert "Count to a number, at 100 %." in text and "--by" in text and "--json" in text


def test_a_mistyped_name(packs: Packs, capsys: Capsys) -> None:
    packs.add("count-up")
    refused(run(capsys, "cuont-up", "6"), "invalid choice: 'cuont-up'", "did you mean 'count-up'?")
    refused(run(capsys, "exprot"), "did you mean 'export'?")


def test_a_command_whose_distribution_is_missing(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_commands, "discover", lambda group: ())
    refused(run(capsys, "sweep", "zoo.toml"), "invalid choice: 'sweep'", "`pip install onnxexp-plugin-sweep` brings this command")


def test_only_a_command_that_runs_is_imported(packs: Packs, tmp_path: Path, capsys: Capsys) -> None:
    """The list of commands imports none, though it shows their summaries."""
    packs.add("count")
    other = packs.add("spare", "raise AssertionError('imported')")
    for arguments in (["count", "2"], ["config"], ["plugins"]):
        code = f"assert not [name for name in sys.modules if name in ('torch', 'onnx', {other!r})]"
        ran = separately(*arguments, cwd=tmp_path, path=[packs.folder], code=code)
        assert ran.status == 0, ran.err
    spare = packs.folder / f"{other}.py"
    spare.write_text("SUMMARY = 'a spare command'\n" + spare.read_text())
    assert "a spare command" in help_text(capsys) and other not in sys.modules


def test_a_broken_command_breaks_no_other(packs: Packs, capsys: Capsys) -> None:
    packs.add("count")
    packs.add("broken", "import no_such_package_anywhere")
    packs.add("leaving", "raise SystemExit(3)")
    packs.add("empty", "SUMMARY = ''")
    packs.add("garbled", "def")
    assert run(capsys, "count", "1").status == 0
    refused(run(capsys, "broken"), "the command 'broken' of broken-pack 1.0", "no_such_package_anywhere", "reinstall or remove")
    refused(run(capsys, "leaving"), "the command 'leaving' of leaving-pack 1.0", "SystemExit: 3")
    refused(run(capsys, "empty"), "lacks SUMMARY, arguments, run")
    text = " ".join(help_text(capsys).split())
    assert "count to a number" in text and "broken a command of broken-pack" in text and "write a model as ONNX" in text
    findings = [each["text"] for each in run(capsys, "doctor", "--json").document["findings"]]
    for name in ("broken", "leaving", "empty", "garbled"):
        assert any(f"the command '{name}' of" in text for text in findings)


def test_a_built_in_command_keeps_its_name(packs: Packs, capsys: Capsys) -> None:
    packs.add("config", "raise AssertionError('imported')", plugin="taker")
    assert run(capsys, "config").status == 0
    assert COMMANDS["config"] in help_text(capsys)
    findings = [each["text"] for each in run(capsys, "doctor", "--json").document["findings"]]
    assert any("the command 'config' of config-pack 1.0 is never called" in text for text in findings)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("ONNXEXP_DISABLE", "count-plugin", "is off: its plugin 'count-plugin' is off: disabled by ONNXEXP_DISABLE"),
        ("ONNXEXP_PLUGINS", "spare-plugin", "is off: its plugin 'count-plugin' is off: not among the plugins of ONNXEXP_PLUGINS"),
        ("ONNXEXP_ALLOW", "spare-pack", "is refused: the distribution count-pack is not allowed by the lock `allow` of ONNX"),
    ],
)
def test_a_command_that_may_not_run(
    packs: Packs, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, reason: str
) -> None:
    module = packs.add("count", "raise AssertionError('imported')")
    packs.add("spare")
    monkeypatch.setenv(setting, value)
    refused(run(capsys, "count", "1"), f"the command 'count' of count-pack 1.0 {reason}")
    assert "\n    count " not in help_text(capsys)
    assert "'count'" not in run(capsys, "cuont").err
    assert run(capsys, "spare", "1").status == 0
    assert module not in sys.modules


def test_two_commands_of_one_name(packs: Packs, capsys: Capsys) -> None:
    packs.add("count")
    packs.add("count", plugin="other", distribution="impostor")
    refused(run(capsys, "count", "1"), "impostor 1.0 has a command of this name too: uninstall one of them")


def test_the_configuration_counts_for_plugin_commands_only(packs: Packs, capsys: Capsys) -> None:
    """The list and a mistyped name have their message too."""
    packs.add("count")
    Path("onnxexp.toml").write_text('opset = "new"\n')
    refused(run(capsys, "count", "1"), "onnxexp.toml: opset is 'new'")
    refused(run(capsys, "exprot"), "did you mean 'export'?")
    assert "export " in help_text(capsys)


def test_the_working_directory_has_no_commands(packs: Packs, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    module = packs.add("count")
    Path(f"{module}.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(Path.cwd())
    refused(run(capsys, "count", "1"), "would be loaded from the working directory")
    monkeypatch.chdir(packs.folder)
    refused(run(capsys, "count", "1"), "invalid choice: 'count'")
