"""A damaged distribution of somebody else stops no export, and `onnxexp doctor` names it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

METADATA = b"Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
ENTRY = b"[onnxexp.plugins]\nacme = acme_pack:plugin\n"
DAMAGED: dict[str, Mapping[str, bytes]] = {
    "a line without =": {"METADATA": METADATA, "entry_points.txt": b"[console_scripts]\nacme\n"},
    "an entry without =": {"METADATA": METADATA, "entry_points.txt": b"[onnxexp.plugins]\nacme\n"},
    "Latin-1 entry points": {"METADATA": METADATA, "entry_points.txt": b"[console_scripts]\nacm\xe9 = acme:main\n"},
    "no Name": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.0\n", "entry_points.txt": ENTRY},
    "no Version": {"METADATA": b"Metadata-Version: 2.1\nName: acme\n", "entry_points.txt": ENTRY},
    "Latin-1 author": {"METADATA": METADATA + b"Author: Ren\xe9\n", "entry_points.txt": ENTRY},
    "no section": {"METADATA": METADATA, "entry_points.txt": b"acme = acme:main\n"},
}
EXPORT = """
import sys
import torch, onnxexp
from onnxexp.cli import main
onnxexp.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # now all is imported: torch and networkx read entry points as well
sys.path.append(sys.argv[1])
onnxexp.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
assert main(["plugins"]) == 0
main(["doctor"])
"""


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_distribution_stops_nothing(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "acme-1.0.dist-info"
    folder.mkdir()
    for name, content in DAMAGED[kind].items():
        (folder / name).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EXPORT, tmp_path], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
