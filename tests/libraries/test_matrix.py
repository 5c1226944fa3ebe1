"""The parts of the matrix that need no library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from tests.libraries.__main__ import name_of, read
from tests.libraries.case import Cases, Exported, LibraryModel
from tests.libraries.page import page
from tests.libraries.run_case import EXPORTERS, checked, difference, run


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 2


def model() -> LibraryModel:
    return LibraryModel(Half(), (torch.rand(2, 3),), ({0: "n"},), [(torch.rand(5, 3),)])


def test_a_model_with_each_exporter(tmp_path: Path) -> None:
    table = Cases("model")
    table("library", "half")(model)
    (case,) = table.all
    assert str(case) == "library: half"
    for exporter in EXPORTERS["model"]:
        assert difference(run(case, exporter, tmp_path)) == ""


def test_an_entry_point_gets_onnxexp_behind_torch_onnx(tmp_path: Path) -> None:
    table = Cases("entry point")

    @table("library", "export", 3)
    def export(folder: Path, size: int) -> Exported:
        torch.onnx.export(Half(), torch.rand(2, size), folder / "model.onnx", dynamo=False)
        return Exported(folder / "model.onnx", Half(), [(torch.rand(2, size),)])

    producers = []
    for exporter in (*EXPORTERS["entry point"], "dynamo=True"):
        made = run(table.all[0], exporter, tmp_path)
        assert difference(made) == ""
        checked(made.file)
        producers.append(made.file.read_bytes())
    assert b"onnxexp" in producers[0] and b"onnxexp" not in producers[1] + producers[2]
    assert producers[1] != producers[2]


@pytest.mark.parametrize(
    ("eager", "problem"),
    [
        (lambda x: x * 2, "at [[2, 3]]: output 0 differs by "),
        (lambda x: x[:1] / 2, "at [[2, 3]]: output 0 has the shape (2, 3) in place of (1, 3)"),
        (lambda x: (x / 2, x), "at [[2, 3]]: 1 outputs in place of 2"),
    ],
)
def test_differences(eager: Any, problem: str, tmp_path: Path) -> None:
    onnxexp.export(Half(), (torch.ones(2, 3),), tmp_path / "model.onnx")
    assert difference(Exported(tmp_path / "model.onnx", eager, [(torch.ones(2, 3),)])).startswith(problem)


def test_the_page(tmp_path: Path) -> None:
    one = {"case": "a: b", "kind": "entry point", "exporter": "onnxexp", "status": "right", "detail": "", "nodes": 1234}
    one |= {"seconds": 1.5, "steps": {"checker": "ok", "onnxslim": "it | fails"}}
    other = {
        "case": "a: b",
        "kind": "entry point",
        "exporter": "torch.onnx",
        "status": "differs",
        "detail": "by 3\nmore",
        "steps": {},
    }
    file = tmp_path / "results.jsonl"
    file.write_text("\n".join(json.dumps(each) for each in ({**one, "status": "differs"}, other, one)), "utf-8")
    text = page(list(read(file).values()))
    assert "| onnxexp | 1 | 0 | 0 | 0 |" in text and "| a: b | right, 1,234 nodes, 1.5 s | differs | torch.onnx: by 3 |" in text
    assert r"With onnxexp, 1 of 2 end well; not onnxslim of a: b (it \| fails)." in text
    assert name_of({"library": "a", "name": "b"}) == "a: b"
