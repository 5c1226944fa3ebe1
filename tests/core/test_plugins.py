"""Finding and loading plugins, with distributions made on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxexp import PluginLoadError, SymbolicTable
from onnxexp.plugins import select


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path to install distributions in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, modules: dict[str, str], value: str) -> None:
    """A distribution `name` with a package of these modules and the plugin `value` under its own name."""
    package = folder / value.partition(":")[0]
    package.mkdir()
    for module, source in modules.items():
        (package / f"{module}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[onnxexp.plugins]\n{name} = {value}\n")


TABLE = "from onnxexp import SymbolicTable\ntable = SymbolicTable('mine')\ntable.direct({'relu': 'Relu'})\n"


def test_a_plugin_is_found_by_its_entry_point(installed: Path) -> None:
    install(installed, "good-pack", {"__init__": TABLE}, "good_pack:table")
    (plugin,) = select(["good-pack"])
    assert (plugin.name, plugin.distribution, plugin.version, len(plugin.table)) == ("good-pack", "good-pack", "1.0", 1)
    assert "good-pack" in [plugin.name for plugin in select(None)]


def test_a_plugin_that_fails_to_load_says_so_each_time(installed: Path) -> None:
    broken = "from half_pack.table import table\nraise RuntimeError('no such accelerator')\n"
    install(installed, "half-pack", {"__init__": broken, "table": TABLE}, "half_pack:table")
    for _ in range(2):
        with pytest.raises(PluginLoadError, match="half-pack 1.0.*half_pack:table.*RuntimeError: no such accelerator"):
            select(["half-pack"])


def test_what_is_no_table_is_refused(installed: Path) -> None:
    install(installed, "odd-pack", {"__init__": "table = 3\n"}, "odd_pack:table")
    with pytest.raises(PluginLoadError, match="odd_pack:table is a int, not a SymbolicTable"):
        select(["odd-pack"])
    with pytest.raises(PluginLoadError, match="neither a plugin's name nor a SymbolicTable"):
        select([3])  # type: ignore[list-item]


def test_a_missing_plugin_is_told_with_the_nearest_installed_one(installed: Path) -> None:
    install(installed, "good-pack2", {"__init__": TABLE}, "good_pack2:table")
    with pytest.raises(PluginLoadError, match="did you mean 'good-pack2'"):
        select(["good-pack3"])


def test_only_what_is_named_is_imported(installed: Path) -> None:
    install(installed, "never-pack", {"__init__": "raise RuntimeError('imported')\n"}, "never_pack:table")
    (plugin,) = select([SymbolicTable("mine")])
    assert plugin.name == "inline mine 0"
