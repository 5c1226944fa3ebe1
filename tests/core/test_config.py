"""The three sources of the configuration: precedence, origin, refused values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onnxexp._errors import OptionError
from onnxexp._request.config import KEYS, Config, load

HASH = "sha256:" + "0" * 64


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def origin(config: Config, name: str) -> str:
    return config.origins[name]


def test_without_any_door_the_defaults_hold(folder: Path) -> None:
    config = load()
    assert config == Config(None, (), {}, (), 20, "onnxruntime", (), False, True, False, config.origins)
    assert config.origins == {key.name: "default" for key in KEYS}
    assert [*config.origins] == [key.name for key in KEYS]


@pytest.mark.parametrize("name", ["pyproject.toml", "onnxexp.toml"])
def test_a_file_is_found_from_the_folders_below(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    header = "[tool.onnxexp]\n" if name == "pyproject.toml" else ""
    (folder / name).write_text(header + 'plugins = ["aten", "..."]\nopset = 17\nprefer = { "a::b" = "aten" }\n')
    (folder / "below" / "further").mkdir(parents=True)
    (folder / "below" / "pyproject.toml").write_text("[project]\nname = 'one-that-onnxexp-reads-over'\n")
    monkeypatch.chdir(folder / "below" / "further")
    config = load()
    assert (config.plugins, config.opset, config.prefer) == (("aten", ...), 17, {"a::b": "aten"})
    assert origin(config, "opset").startswith(str(folder / name))


def test_a_file_of_our_own_wins_over_pyproject(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.onnxexp]\nopset = 13\n")
    (folder / "onnxexp.toml").write_text("opset = 14\n")
    assert load().opset == 14


def test_what_changes_between_two_exports_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = folder / "below"
    below.mkdir()
    assert load().opset == 20
    for opset in (13, 14):  # as many bytes, within one tick of the clock by which files are dated
        (folder / "onnxexp.toml").write_text(f"opset = {opset}\n")
        assert load().opset == opset
    (folder / "pyproject.toml").write_text("[tool.onnxexp]\nopset = 15\n")
    (folder / "onnxexp.toml").unlink()
    assert load().opset == 15
    monkeypatch.chdir(below)
    assert load().opset == 15
    (below / "onnxexp.toml").write_text("opset = 16\n")
    assert load().opset == 16
    monkeypatch.setenv("ONNXEXP_OPSET", "17")
    assert load().opset == 17
    monkeypatch.setenv("ONNXEXP_OPSET", "18")
    assert load().opset == 18
    monkeypatch.delenv("ONNXEXP_OPSET")
    monkeypatch.chdir(folder)
    assert load().opset == 15


def test_another_environment_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().opset == 20
    monkeypatch.setattr(os, "environ", {"ONNXEXP_OPSET": "17"})
    assert load().opset == 17
    os.environ["ONNXEXP_OPSET"] = "18"
    assert load().opset == 18


def test_later_doors_win(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "onnxexp.toml").write_text('opset = 13\nplugins = ["a"]\ndebug = true\n')
    assert (load().opset, load().plugins, load().debug) == (13, ("a",), True)
    monkeypatch.setenv("ONNXEXP_OPSET", "14")
    monkeypatch.setenv("ONNXEXP_PLUGINS", "b, c")
    monkeypatch.setenv("ONNXEXP_DEBUG", "off")
    config = load()
    assert (config.opset, config.plugins, config.debug) == (14, ("b", "c"), False)
    assert origin(config, "opset") == "ONNXEXP_OPSET"
    config = load(opset=15, plugins=["d"])
    assert (config.opset, config.plugins, origin(config, "opset")) == (15, ("d",), "call")


def test_what_gathers_over_the_doors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "onnxexp.toml").write_text(
        'disable = ["a"]\nskip_passes = ["x"]\nallow = ["p", "q"]\n[prefer]\n"m::n" = "a"\n"m::o" = "a"\n'
    )
    monkeypatch.setenv("ONNXEXP_DISABLE", "b,a")
    monkeypatch.setenv("ONNXEXP_SKIP_PASSES", "y")
    monkeypatch.setenv("ONNXEXP_PREFER", "m::o=b")
    monkeypatch.setenv("ONNXEXP_ALLOW", f"p@{HASH}")
    config = load(disable=["c"], skip_passes=["z"], prefer={"m::q": "c"}, allow=["r"])
    assert config.disable == ("a", "b", "c") and config.skip_passes == ("x", "y", "z")
    assert config.prefer == {"m::n": "a", "m::o": "b", "m::q": "c"}
    assert config.allow == (frozenset("pq"), frozenset({f"p@{HASH}"}), frozenset("r"))
    assert origin(config, "disable") == f"{folder / 'onnxexp.toml'}; ONNXEXP_DISABLE; call"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("opset = 8", r"onnxexp.toml: opset is 8; expected a whole number from 9 to 28"),
        ("opset = 17.0", "opset is 17.0; expected a whole number"),
        ("opset = true", "opset is True; expected a whole number"),
        ("opest = 17", r"onnxexp.toml: there is no setting 'opest' \(did you mean 'opset'\?\)"),
        ('plugins = "aten"', "plugins is 'aten'; expected a list of plugin names"),
        ("plugins = [1]", "plugins is .*; expected a list of plugin names"),
        ('disable = [""]', r"disable is \[''\], with '' in it; expected a list of plugin names"),
        ('prefer = ["a"]', "prefer is .*; expected a table of operators"),
        ('prefer = { gelu = "a" }', "with 'gelu': 'a' in it; expected a table of operators"),
        ('prefer = { "a::gelu" = 3 }', "with 'a::gelu': 3 in it"),
        ('allow = ["p@sha256:12"]', "with 'p@sha256:12' in it; expected a list of distributions"),
        ('allow = ["p@md5:12"]', "with 'p@md5:12' in it"),
        ('skip_passes = "x"', "skip_passes is 'x'; expected a list of passes"),
        ("debug = 1", "debug is 1; expected true or false"),
        ('target = "tensorrt"', 'target is \'tensorrt\'; expected "onnxruntime" or "onnx"'),
        ("opset = ", "onnxexp.toml is not valid TOML"),
    ],
)
def test_malformed_files(folder: Path, text: str, message: str) -> None:
    (folder / "onnxexp.toml").write_text(text)
    with pytest.raises(OptionError, match=message):
        load()


def test_a_section_that_is_no_table(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool]\nonnxexp = 3\n")
    with pytest.raises(OptionError, match=r"\[tool.onnxexp\] is 3, not a table"):
        load()


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ONNXEXP_OPSET", "new", "ONNXEXP_OPSET is 'new'; expected a whole number"),
        ("ONNXEXP_OPSET", "99", "ONNXEXP_OPSET is 99; expected a whole number"),
        ("ONNXEXP_DEBUG", "perhaps", "ONNXEXP_DEBUG is 'perhaps'; expected true or false"),
        ("ONNXEXP_PREFER", "a::gelu", "ONNXEXP_PREFER is 'a::gelu'; expected a table"),
        ("ONNXEXP_PLUGIN", "aten", r"ONNXEXP_PLUGIN: there is no setting 'plugin' \(did you mean 'plugins'\?\)"),
    ],
)
def test_malformed_variables(folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(OptionError, match=message):
        load()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"opset": 8}, "opset_version is 8; expected a whole number"),
        ({"plugins": "aten"}, "plugins is 'aten'; expected a list of plugin names"),
        ({"disable": "aten"}, "without is 'aten'; expected a list of plugin names"),
        ({"target": "ort"}, "target is 'ort'; expected"),
        ({"skip_passes": [3]}, "skip_passes is .*; expected a list of passes"),
    ],
)
def test_malformed_arguments(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load(**given)


def test_no_torch_is_needed() -> None:
    program = (
        "import sys, onnxexp._request.config as c, onnxexp._plugins.discovery as d; "
        "d.states(c.load()); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


TABLE = "to fix this, write its settings below"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "digits": (b"opset = " + b"1" * 5000, "not valid TOML: Exceeds the limit"),
    "nested": (b"plugins = " + b"[" * 5000, "nested too deeply"),
    "nested tables": (b"prefer = " + b"{a=" * 5000, "nested too deeply"),
    "Latin-1": (b'target = "\xe9"', "not valid TOML: 'utf-8' codec"),
    "a long key": (b"a." * 100_000 + b"a = 1", "a key of more than 200 parts"),
    "large": (b"#" * (1 << 20) + b"\n", "more than 1,048,576 bytes"),
    "a long value": (b'disable = ["' + b"a" * 100_000 + b'", ""]', r"disable is .{300}\.\.\.; expected a list"),
    "a date": (b"plugins = [1979-05-27]", "plugins is .*; expected a list"),
    "infinity": (b"opset = inf", "opset is inf; expected a whole number"),
}


@pytest.mark.parametrize("name", ["pyproject.toml", "onnxexp.toml"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(folder: Path, kind: str, name: str) -> None:
    contents, message = HOSTILE[kind]
    (folder / name).write_bytes((b"[tool.onnxexp]\n" if name == "pyproject.toml" else b"") + contents)
    with pytest.raises(OptionError, match=f"{name}.*{message}") as raised:
        load()
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("text", ["tool = 5", "[[tool]]\n[tool.onnxexp]\nopset = 17", 'tool = "onnxexp"', "tool = []"])
def test_a_tool_that_is_no_table(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"{text}\n# onnxexp\n")
    with pytest.raises(OptionError, match=TABLE):
        load()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("name", ["pyproject.toml", "onnxexp.toml"])
def test_what_is_no_file_has_no_settings(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).mkdir()
    assert load().opset == 20
    (folder / name).rmdir()
    os.mkfifo(folder / name)
    assert load().opset == 20
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert load().opset == 20


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the working directory cannot be removed")
def test_a_working_directory_that_was_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    assert load().opset == 20
    finished = subprocess.run([sys.executable, "-m", "onnxexp", "plugins"], capture_output=True, text=True, check=False)
    assert finished.returncode == 0 and "Traceback" not in finished.stderr
