"""Commands on hostile ONNX files: our error, no traceback, nothing of other files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.commanding import run
from tests.core.test_model_reader import EXTERNAL, INLINE, SECRET, inside, model, written

HOSTILE = {f"inline, {name}": tensor for name, (tensor, _) in INLINE.items()}
HOSTILE |= {f"external, {name}": tensor for name, (tensor, _) in EXTERNAL.items()}
MODULE = "import torch\ndef make():\n    return torch.nn.ReLU(), torch.ones(6)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    inner = tmp_path / "folder"
    inner.mkdir()
    (inner / "link").symlink_to(tmp_path / "secret")
    (inner / "circle").symlink_to("circle")
    (inner / "zero").symlink_to("/dev/zero")
    (inner / "models.py").write_text(MODULE)
    os.link(tmp_path / "secret", inner / "hard")
    os.mkfifo(inner / "pipe")
    return inner


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_tensor(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in ("graph", "subgraph"):
        path = str(written(folder, model(HOSTILE[kind]) if where == "graph" else inside(HOSTILE[kind], where)))
        fix = ["fix", path, "--shape", "x=1", "-o", f"{folder}/fixed.onnx"]
        for words in (["diff", path, path], ["explain", path], fix, ["verify", path, "--against", f"{folder}/models.py:make"]):
            ran = run(capsys, *words)
            assert ran.status == 2 and "tensor 'w'" in ran.err and "to fix this, " in ran.err
            assert "Traceback" not in ran.err and "bug" not in ran.err and SECRET not in ran.out + ran.err


def test_names_do_not_reach_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal runs what follows an escape character."""
    proto = model(INLINE["negative sizes"][0])
    proto.graph.initializer[0].name = "w\x1b[31m\x07"
    ran = run(capsys, "diff", *[str(written(folder, proto))] * 2)
    assert ran.status == 2 and "\x1b[31m\x07" not in ran.err and "w\\x1b[31m" in ran.err
