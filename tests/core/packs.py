"""Distributions with plugins, made on the spot in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["TABLE", "install", "write_metadata"]

TABLE = "from onnxexp import SymbolicTable\ntable = SymbolicTable('mine')\ntable.direct({'relu': 'Relu'})\n"


def install(folder: Path, name: str, modules: Mapping[str, str], value: str, plugin: str = "") -> Path:
    """Install a distribution with these modules and the plugin; return its metadata."""
    package = folder / value.partition(":")[0].partition(".")[0]
    package.mkdir(exist_ok=True)
    for module, source in modules.items():
        (package / f"{module}.py").write_text(source)
    rows = [f"{package.name}/{module}.py,sha256=as-the-installer-says,1" for module in modules]
    return write_metadata(folder, name, f"[onnxexp.plugins]\n{plugin or name} = {value}\n", rows)


def write_metadata(folder: Path, name: str, entry_points: str, record: list[str]) -> Path:
    """Write the metadata of a distribution, whose RECORD has these rows, and return its folder."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (metadata / "RECORD").write_text("\n".join([*record, f"{name}-1.0.dist-info/RECORD,,", "../bin/script,sha256=any,1"]) + "\n")
    return metadata
