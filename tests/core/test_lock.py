"""The lock `allow`: the files that it names are the files that run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from onnxexp import PluginLoadError
from onnxexp._plugins.discovery import discover, record_hash, states
from onnxexp._plugins.loading import load
from onnxexp._request.config import load as configured
from tests.core.packs import TABLE, install, write_metadata

EVIL = "raise AssertionError('imported')\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the distribution "packed" on sys.path, behind an empty folder "before"."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    (tmp_path / "before").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "before"))
    install(folder, "packed", {"__init__": TABLE, "inner": ""}, "packed:table")
    return folder


def state(entry: str = "packed", name: str = "packed") -> tuple[str, str]:
    return next((each.state, each.reason) for each in states(configured(allow=[entry])) if each.found.name == name)


def pinned(name: str = "packed") -> str:
    return next(f"{found.distribution}@{record_hash(found)}" for found in discover() if found.name == name)


def refused(reason: str, entry: str = "packed", name: str = "packed") -> None:
    found, why = state(entry, name)
    assert found == "refused" and reason in why and "not allowed by the lock" in why, why
    with pytest.raises(PluginLoadError, match="nothing is exported without them"):
        load(configured(allow=[entry], plugins=[name]))


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("shadow", ["packed.py", "packed/__init__.py"])
def test_a_module_before_the_allowed_one_is_refused(site: Path, shadow: str, pin: bool) -> None:
    entry = pinned() if pin else "packed"
    assert state(entry)[0] == "on"
    file = site.parent / "before" / shadow
    file.parent.mkdir(exist_ok=True)
    file.write_text(EVIL)
    refused(f"{file}, which an import would run, is no file of packed 1.0", entry)


@pytest.mark.parametrize("added", ["more.py", "inner/__init__.py", "inner.abi3.so", "deep/er.py", "late.pyc"])
def test_a_module_that_the_distribution_does_not_list_is_refused(site: Path, added: str) -> None:
    file = site / "packed" / added
    file.parent.mkdir(exist_ok=True)
    file.write_text(EVIL)
    refused(f"{file}, which", pinned())


def test_files_that_are_no_modules_may_be_added(site: Path) -> None:
    for name in ("cache.json", "__pycache__/inner.cpython-311.pyc"):
        (site / "packed" / name).parent.mkdir(exist_ok=True)
        (site / "packed" / name).write_text("")
    assert state(pinned())[0] == "on"


def test_a_folder_that_is_a_link_is_refused(site: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (site / "packed" / "linked").symlink_to(tmp_path / "elsewhere")
    refused("linked, which", pinned())


def test_what_is_imported_already_counts(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packed", ModuleType("packed"))
    refused("the module packed of sys.modules, which")


def test_a_namespace_has_files_of_several(site: Path) -> None:
    for name in ("one", "two"):
        (site / "spaced" / name).mkdir(parents=True)
        (site / "spaced" / name / "__init__.py").write_text(TABLE)
        write_metadata(
            site, name, f"[onnxexp.plugins]\n{name} = spaced.{name}:table\n", [f"spaced/{name}/__init__.py,sha256=x,1"]
        )
    assert state("one", "one")[0] == "on"
    (site.parent / "before" / "spaced").mkdir()
    (site.parent / "before" / "spaced" / "one.py").write_text(EVIL)
    assert state("two", "two")[0] == "on"
    refused("one.py, which", "one", "one")


def test_an_editable_install_is_its_source_folder(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source" / "src"
    (source / "drawn").mkdir(parents=True)
    (source / "drawn" / "__init__.py").write_text(TABLE)
    info = write_metadata(site, "drawn", "[onnxexp.plugins]\ndrawn = drawn:table\n", ["_drawn.pth,sha256=x,1"])
    url = {"url": source.parent.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(url))
    monkeypatch.syspath_prepend(str(source))
    assert state("drawn", "drawn")[0] == "on"
    other = source / "drawn.egg-info"  # a second place of the metadata, as setuptools leaves it
    other.mkdir()
    (other / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: drawn\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[onnxexp.plugins]\ndrawn = drawn:table\n")
    assert state("drawn", "drawn")[0] == "on"
    (tmp_path / "before" / "drawn.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(tmp_path / "before"))
    refused("drawn.py, which", "drawn", "drawn")


def test_a_name_that_two_distributions_have_is_not_enough(site: Path) -> None:
    entry = pinned()
    install(site.parent / "before", "Packed", {"__init__": TABLE}, "packed:table", plugin="packed")
    refused("Packed is installed twice, see ")
    assert "are not those allowed" in state(entry)[1]
    assert state(pinned())[0] == "on"


def test_two_versions_in_one_folder_are_two_distributions(site: Path) -> None:
    (site / "packed-2.0.dist-info").mkdir()
    (site / "packed-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: packed\nVersion: 2.0\n")
    (site / "packed-2.0.dist-info" / "entry_points.txt").write_text("[onnxexp.plugins]\npacked = evil:table\n")
    refused("")


def test_a_folder_that_sys_path_has_twice_is_one_installation(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.parent / "again").symlink_to(site)
    monkeypatch.syspath_prepend(str(site.parent / "again"))
    assert state()[0] == "on"


@pytest.mark.parametrize("entry_point", ["aten = evil:table", "fresh = evil:table"])
def test_a_name_of_this_project_is_not_enough(site: Path, entry_point: str) -> None:
    (site / "evil.py").write_text(EVIL)
    write_metadata(site, "onnxexp-plugin-aten", f"[onnxexp.plugins]\n{entry_point}\n", ["evil.py,sha256=x,1"])
    found = [each for each in states(configured(allow=["onnxexp-plugin-aten"])) if each.found.value == "evil:table"]
    assert [each.state for each in found] == ["refused"]


def test_the_files_are_hashed_once_for_all_plugins(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "".join(f"many{number} = packed:table\n" for number in range(500))
    (site / "packed-1.0.dist-info" / "entry_points.txt").write_text(f"[onnxexp.plugins]\n{points}")
    entry, read = pinned("many0"), []
    monkeypatch.setattr(Path, "read_bytes", lambda path, original=Path.read_bytes: read.append(path) or original(path))
    assert sum(each.state == "on" for each in states(configured(allow=[entry]))) == 500
    assert len(read) == 2
