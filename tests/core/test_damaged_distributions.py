"""A damaged foreign distribution stops no export, and `onnxexp doctor` names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.packs import DAMAGED, write_damaged

EXPORT = """
import sys
import torch, onnxexp
from onnxexp._cli import main
onnxexp.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # now all is imported: torch and networkx read entry points as well
sys.path.append(sys.argv[1])
onnxexp.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
assert main(["plugins"]) == 0
main(["doctor"])
"""


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_distribution_stops_nothing(kind: str, tmp_path: Path) -> None:
    write_damaged(tmp_path, kind)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EXPORT, tmp_path], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
