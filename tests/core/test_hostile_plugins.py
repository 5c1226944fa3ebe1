"""Packs that take names, break when read, or never end stop no other export."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from importlib_metadata import EntryPoint

import onnxexp
from onnxexp import PluginLoadError
from onnxexp._plugins import discovery, isolated_import
from onnxexp._plugins.discovery import states
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._plugins.loading import load
from onnxexp._plugins.own_distributions import OWNERS
from onnxexp._request.config import load as configured
from tests.core.commanding import run
from tests.core.packs import BROKEN, TABLE, install, write_metadata

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an empty first folder of sys.path, and forget its modules afterwards."""
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
    """Return the reasons of the refused plugins, by distribution."""
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


# Objects that break when they are read


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_object_stops_nothing_and_is_named(site: Path, kind: str) -> None:
    source, reason = BROKEN[kind]
    install(site, "bad-pack", {"__init__": source}, "bad_pack:table")
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"(?s)'bad-pack' .bad-pack 1.0.*{reason}.*The export goes on without it"):
            assert [plugin.name for plugin in export_relu().plugins] == ["aten"]
    with pytest.raises(PluginLoadError, match=f"(?s)'bad-pack' .bad-pack 1.0.*{reason}"):
        load(configured(plugins=["bad-pack"]))


def test_reports_name_a_broken_object(site: Path, capsys: Capsys) -> None:
    for number, (source, _) in enumerate(BROKEN.values()):
        install(site, f"bad-pack{number}", {"__init__": source}, f"bad_pack{number}:table")
    listed = {row["name"]: row["state"] for row in run(capsys, "plugins", "--load", "--json").document}
    findings = " ".join(each["text"] for each in run(capsys, "doctor", "--json").document["findings"])
    for number in range(len(BROKEN)):
        assert listed[f"bad-pack{number}"] == "broken" and f"bad-pack{number} 1.0" in findings
    with pytest.warns(UserWarning, match="goes on without it"):
        assert run(capsys, "plugins", "why", "aten::relu").status == 0


def test_an_import_leaves_the_state_of_the_process(site: Path) -> None:
    source = "import os, torch\ntorch.set_grad_enabled(False)\nos.chdir('/')\n" + TABLE
    install(site, "rude-pack", {"__init__": source}, "rude_pack:table")
    before = Path.cwd()
    assert "rude-pack" in [plugin.name for plugin in load(configured()).loaded]
    assert torch.is_grad_enabled() and Path.cwd() == before


def test_ctrl_c_ends_an_import(site: Path) -> None:
    install(site, "long-pack", {"__init__": "raise KeyboardInterrupt"}, "long_pack:table")
    with pytest.raises(KeyboardInterrupt):
        load(configured())


def test_a_slow_import_is_named(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    """The import ends once the line is there."""
    monkeypatch.setattr(isolated_import, "SLOW", 0.01)
    waits = (
        "import sys, time\nfor _ in range(3000):\n    if 'loading for' in sys.stderr.getvalue(): break\n    time.sleep(0.01)\n"
    )
    install(site, "slow-pack", {"__init__": waits + TABLE}, "slow_pack:table")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert "slow-pack" in [plugin.name for plugin in load(configured()).loaded]
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert text.count("'slow-pack' (slow-pack 1.0, entry point slow_pack:table) has been loading for 0.01 s") == 1


def test_two_entry_points_may_have_one_object(site: Path) -> None:
    source = "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl\n    def pre_pass(self): ...\nplugin = Pack()\n"
    (site / "twice.py").write_text(source)
    write_metadata(site, "twice", "[onnxexp.plugins]\none = twice:plugin\ntwo = twice:plugin\n", [])
    assert [plugin.hooks for plugin in load(configured(plugins=["one", "two"])).loaded] == [("pre_pass",)] * 2


def test_two_entry_points_with_one_table_are_no_conflict(site: Path) -> None:
    (site / "twice.py").write_text(TABLE)
    write_metadata(site, "twice", "[onnxexp.plugins]\none = twice:table\ntwo = twice:table\n", [])
    assert not load(configured(plugins=["one", "two"])).dispatcher.conflicts


def test_many_entry_points_take_linear_work(site: Path) -> None:
    """The same number of comparisons for each of them."""
    calls: list[int] = []

    class Name(str):
        def __eq__(self, other: object) -> bool:
            calls.append(0)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    counts = []
    for many in (100, 1000):
        point = EntryPoint("", "many:table", discovery.GROUP)
        plugins = tuple(InstalledPlugin(Name(f"many{number}"), "many:table", "many", "1", "", point) for number in range(many))
        calls.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(discovery, "discover", lambda *_, found=plugins: found)
            assert len(states(configured())) == many
        counts.append(len(calls) / many)
    assert counts[1] < 2 * counts[0] + 1
