"""Packs that take names, break when they are read, or never end: they stop no export that does not need them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp import PluginLoadError
from onnxexp.plugins.discovery import states
from onnxexp.plugins.loading import load
from onnxexp.plugins.own_distributions import OWNERS
from onnxexp.request.config import load as configured
from tests.core.commanding import run
from tests.core.packs import TABLE, install, write_metadata

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, the first on sys.path, whose modules are forgotten after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = {*sys.modules}
    yield folder
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):  # a built-in module has none
            del sys.modules[name]


def export_relu(**options: Any) -> onnxexp.ONNXProgram:
    return onnxexp.export(torch.relu, (torch.ones(2),), **options)


def refusals(**options: Any) -> dict[str, str]:
    """The reasons of the refused plugins, by distribution."""
    return {each.found.distribution: each.reason for each in states(configured(**options)) if each.state == "refused"}


# Names of this project


def test_the_reserved_names_are_those_of_the_distributions() -> None:
    found = {}
    for path in (ROOT / "plugins").glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        for group, points in project["entry-points"].items():
            found |= {(group, name): project["name"] for name in points}
    assert found == OWNERS


def test_a_name_of_this_project_cannot_be_taken(site: Path, capsys: Capsys) -> None:
    install(site, "taker", {"__init__": "raise SystemExit('imported')"}, "taker:table", plugin="aten")
    assert "only onnxexp-plugin-aten may have a plugin of this name: uninstall taker" in refusals()["taker"]
    with pytest.warns(UserWarning, match=r"'aten' \(taker 1.0\) is refused: only onnxexp-plugin-aten may"):
        assert [plugin.origin for plugin in export_relu(plugins=["aten"]).plugins] == ["onnxexp-plugin-aten 0.1.0"]
    with pytest.raises(PluginLoadError, match="only onnxexp-plugin-aten may"):
        load(configured(strict_plugins=True))
    assert "taker" in run(capsys, "plugins").out
    assert any("taker 1.0" in each["text"] for each in run(capsys, "doctor", "--json").document["findings"])


def test_a_name_of_this_project_stays_free_without_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "taker", {"__init__": TABLE}, "taker:table", plugin="aten")
    monkeypatch.setattr(sys, "path", [str(site)])
    assert [*refusals()] == ["taker"]
    with pytest.raises(PluginLoadError, match="only onnxexp-plugin-aten may"):
        load(configured(plugins=["aten"]))


@pytest.mark.parametrize(("value", "files"), [("other:table", ["other/__init__.py"]), ("onnxexp_aten:plugin", [])])
def test_a_distribution_that_calls_itself_ours_is_refused(site: Path, value: str, files: list[str]) -> None:
    """Another module, or none of the files that the name stands for."""
    write_metadata(site, "Onnxexp_Plugin.aten", f"[onnxexp.plugins]\naten = {value}\n", [f"{file},sha256=x,1" for file in files])
    assert [*refusals()] == ["Onnxexp_Plugin.aten"]
    with pytest.warns(UserWarning, match="Onnxexp_Plugin.aten 1.0.* is refused"):
        assert [plugin.own for plugin in load(configured(plugins=["aten"])).loaded] == [True]


def test_a_command_of_this_project_cannot_be_taken(site: Path, capsys: Capsys) -> None:
    write_metadata(site, "taker", "[onnxexp.commands]\nsweep = taker\n[onnxexp.targets]\nhf = taker\n", [])
    (site / "taker.py").write_text("raise SystemExit('imported')")
    with pytest.raises(SystemExit) as stopped:
        run(capsys, "sweep", "--help")
    assert stopped.value.code == 0
    assert run(capsys, "export", "hf:no-such-folder").status == 2 and "taker" not in sys.modules
    findings = [each["text"] for each in run(capsys, "doctor", "--json").document["findings"]]
    assert any("the command 'sweep' of taker 1.0 is refused" in text for text in findings)


@pytest.mark.parametrize("operator", ["aten::relu", "aten::relu.default"])
def test_why_shows_a_conflict(site: Path, capsys: Capsys, operator: str) -> None:
    install(site, "rival", {"__init__": TABLE.replace("mine", "aten")}, "rival:table")
    with pytest.warns(UserWarning, match="both lower aten::relu"):
        document = run(capsys, "plugins", "why", operator, "--json").document
    claims = [(claim["plugin"], claim["chosen"], claim["reason"]) for claim in document["claims"]]
    assert claims == [("aten", False, "conflict: choose one"), ("rival", False, "conflict: choose one")]
    with pytest.warns(UserWarning, match="both lower aten::relu"):
        ran = run(capsys, "plugins", "why", operator)
    assert ran.status == 1 and f'prefer = {{"{operator}" = "..."}}' in ran.out and "decomposition" not in ran.out
    assert run(capsys, "plugins", "why", operator, "--prefer", "aten::relu=rival").status == 0
    with pytest.warns(UserWarning, match="both lower aten::relu"):
        listed = {row["op"] for row in run(capsys, "ops", "relu", "--json").document["operators"]}
    assert "aten::relu" not in listed and "aten::relu6" in listed


def test_a_conflict_of_packs_comes_before_every_skeleton(site: Path) -> None:
    for number in "12":
        install(site, f"rival{number}", {"__init__": TABLE}, f"rival{number}:table", plugin="rival")
    refused = pytest.warns(UserWarning, match="'rival' .* is refused")
    with refused, pytest.raises(onnxexp.UnsupportedOperators) as raised:
        export_relu(without=["aten"])
    message = str(raised.value)
    assert message.index("rival2 1.0 has a plugin of this name too: uninstall one") < message.index("aten::relu (1x)")
