"""The lock `allow`: only plugins listed by name or hash of their files may load."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.packaging.conftest import Make
from tests.packaging.environments import Environment
from tests.packaging.packs import Pack, relu_pack

REFUSED = """
    import json, sys, torch, onnxexp

    def export(**options):
        try:
            return len(onnxexp.export(torch.nn.ReLU(), (torch.ones(2),), **options).model.graph)
        except onnxexp.PluginLoadError as error:
            return str(error)

    reported = [export(), export(plugins=["spy-pack"])]
    imported = "spy_pack" in sys.modules
    print(json.dumps([*reported, imported, export(without=["spy-pack"])]))
"""


@pytest.fixture(scope="module")
def packs(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("wheels")
    return make("onnxexp", relu_pack("good-pack", 1).wheel(folder), relu_pack("spy-pack", 2).wheel(folder))


def record(environment: Environment, name: str) -> str:
    """Return the lock's entry for a distribution: a hash over the wheel's files."""
    (record_,) = environment.site.glob(f"{name.replace('-', '_')}-*.dist-info/RECORD")
    rows = [row.split(",") for row in record_.read_text().splitlines()]
    notes = ("/INSTALLER", "/REQUESTED", "/direct_url.json")
    names = sorted(row[0] for row in rows if row[1] and not row[0].startswith("..") and not row[0].endswith(notes))
    hashed = [f"{each},{hashlib.sha256((environment.site / each).read_bytes()).hexdigest()}\n" for each in names]
    return f"{name}@sha256:{hashlib.sha256(''.join(hashed).encode()).hexdigest()}"


def lock(folder: Path, *entries: str, file: str = "onnxexp.toml") -> None:
    section = "[tool.onnxexp]\n" if file == "pyproject.toml" else ""
    (folder / file).write_text(f"{section}allow = {json.dumps(entries)}\n")


@pytest.mark.parametrize("setting", ["pyproject.toml", "onnxexp.toml", "variable"])
@pytest.mark.parametrize("by", ["name", "record"])
def test_a_lock_through_each_setting(packs: Environment, setting: str, by: str, tmp_path: Path) -> None:
    entry = "Good_Pack" if by == "name" else record(packs, "good-pack")
    variables = {"ONNXEXP_ALLOW": entry} if setting == "variable" else {}
    if not variables:
        lock(tmp_path, entry, file=setting)
    listed = packs.plugins(cwd=tmp_path, status=1, **variables)
    assert {name: each["state"] for name, each in listed.items()} == {"good-pack": "on", "spy-pack": "refused"}
    origin = "ONNXEXP_ALLOW" if setting == "variable" else str(tmp_path / setting)
    assert "the distribution spy-pack is not allowed" in listed["spy-pack"]["reason"] and origin in listed["spy-pack"]["reason"]


def test_an_export_refuses_and_imports_nothing_of_it(packs: Environment, tmp_path: Path) -> None:
    lock(tmp_path, record(packs, "good-pack"))
    selected, asked, imported, without = packs.python(REFUSED, cwd=tmp_path).reported
    for message in (selected, asked):
        assert "spy-pack: the distribution spy-pack is not allowed" in message and "lift the lock, or switch" in message
    assert imported is False and without == 1


def test_a_later_setting_locks_further_and_never_unlocks(packs: Environment, tmp_path: Path) -> None:
    lock(tmp_path, "good-pack")
    both = packs.states(cwd=tmp_path, status=1, ONNXEXP_ALLOW="good-pack,spy-pack")
    assert both == {"good-pack": "on", "spy-pack": "refused"}
    none = packs.states(cwd=tmp_path, status=1, ONNXEXP_ALLOW="spy-pack")
    assert none == {"good-pack": "refused", "spy-pack": "refused"}
    malformed = packs.command("plugins", cwd=tmp_path, status=2, ONNXEXP_ALLOW="good-pack@md5:1").err
    assert "expected a list of distributions" in malformed


def test_the_lock_that_the_command_prints(packs: Environment, tmp_path: Path) -> None:
    """Paste the printed lock into onnxexp.toml; only what is installed now loads."""
    printed = packs.command("plugins", "--lock", "--without", "spy-pack").out
    assert record(packs, "good-pack") in printed and "spy-pack" not in printed
    (tmp_path / "onnxexp.toml").write_text(printed)
    assert packs.states(cwd=tmp_path, status=1) == {"good-pack": "on", "spy-pack": "refused"}
    assert packs.command("plugins", "--lock", "--json").reported == {
        "allow": [record(packs, "good-pack"), record(packs, "spy-pack")]
    }


def test_another_build_of_the_same_version_is_not_the_one_allowed(make: Make, tmp_path: Path) -> None:
    """A lock with a hash refuses other contents of the same name and version."""
    environment = make("onnxexp", relu_pack("good-pack", 1).wheel(tmp_path / "first"))
    lock(environment.work, record(environment, "good-pack"))
    assert environment.states() == {"good-pack": "on"}
    changed = Pack("good-pack", relu_pack("good-pack", 1).source + "\n    import os\n")
    environment.install("--force-reinstall", "--no-deps", changed.wheel(tmp_path / "second"))
    refused = environment.plugins(status=1)["good-pack"]
    assert refused["state"] == "refused" and record(environment, "good-pack").partition("@")[2] in refused["reason"]
    environment.install("--force-reinstall", "--no-deps", tmp_path / "first" / "good_pack-1.0-py3-none-any.whl")
    assert environment.states() == {"good-pack": "on"}, "the same wheel gives the same hash"


def test_a_file_changed_after_the_installation_is_noticed(make: Make, tmp_path: Path) -> None:
    environment = make("onnxexp", relu_pack("good-pack", 1).wheel(tmp_path))
    lock(environment.work, record(environment, "good-pack"))
    assert environment.states() == {"good-pack": "on"}
    (changed,) = (environment.site / "good_pack").glob("__init__.py")
    changed.write_text(changed.read_text() + "# changed\n")
    assert environment.states(status=1) == {"good-pack": "refused"}
