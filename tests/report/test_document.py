"""The document of a page: both graphs, their link, weights; and the file."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp_report.document import document
from onnxexp_report.operator_times import measure_operator_times
from onnxexp_report.page import write_page
from tests.checking import networks


def parsed(path: Path) -> dict[str, Any]:
    """Read the document inside a page."""
    (packed,) = re.findall(r'<script id="document"[^>]*>([^<]*)</script>', path.read_text("utf-8"))
    return json.loads(gzip.decompress(base64.b64decode(packed)))  # type: ignore[no-any-return]


def test_both_graphs_are_linked() -> None:
    program = networks.quietly_exported(*networks.bert())
    made = document(program)
    assert made["title"] == "BertModel" and made["summary"]["nodes"] == len(made["nodes"]) == len(program.model.graph)
    gelu = next(row for row in made["captured"] if row["o"] == "aten::gelu")
    (onnx,) = gelu["x"]
    assert made["nodes"][onnx]["o"] == "Gelu" and made["nodes"][onnx]["t"] == "aten::gelu"
    assert made["nodes"][onnx]["s"] == "encoder/layer/0/intermediate/intermediate_act_fn" == gelu["s"]
    assert made["nodes"][onnx]["y"] == "onnxexp_aten.nn.activation.gelu" and gelu["f"].endswith("activations.py")
    producers = {value for row in made["nodes"] for value in row["u"]}
    weights = {index for index, value in enumerate(made["values"]) if "w" in value}
    read = {value for row in made["nodes"] for value in row["i"] if value >= 0}
    assert read <= producers | weights | set(made["inputs"])


def test_blocks_are_inside_their_node() -> None:
    made = document(networks.quietly_exported(*networks.branching()))
    assert {"Sin", "Cos"} <= {row["o"] for row in made["nodes"] if row["s"].startswith("If ")}
    assert any(row["o"] == "aten::sin" and "prim::If" in row["s"] for row in made["captured"])


def test_errors_and_times() -> None:
    program = networks.quietly_exported(*networks.resnet())
    made = document(program, mismatch=program.find_mismatch(), profile=measure_operator_times(program))
    assert made["mismatch"]["ok"] and made["mismatch"]["first"] is None
    assert {row["st"] for row in made["captured"]} <= {"ok", "merged"}
    assert "Conv" in {name for name, _, _ in made["profile"]["operators"]}
    assert all(spent >= 0 for spent in made["profile"]["nodes"].values())


class Odd(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        values = [float("nan"), float("inf"), -float("inf"), 3.4e38, -3.4e38, 0.0]
        self.odd = torch.nn.Parameter(torch.tensor(values))
        self.same = torch.nn.Parameter(torch.full((9,), 7.0))
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))
        self.whole = torch.nn.Parameter(torch.tensor([2**62, -(2**62)]), requires_grad=False)

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.odd, x.sum() * self.same, torch.cat([self.empty, x[:3].reshape(1, 3)]), self.whole * x.sum().long()


def test_odd_weights() -> None:
    made = document(onnxexp.export(Odd(), (torch.randn(6),)))
    rows = {row["n"]: row for row in made["weights"]}
    assert rows["odd"]["nan"] == 3 and sum(rows["odd"]["h"]) == 3 and sum(rows["same"]["h"]) == 9
    assert sum(rows["whole"]["h"]) == 2
    json.dumps(made, allow_nan=False)


def test_a_page_is_whole_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = onnxexp.export(torch.nn.ReLU(), (torch.randn(3),))
    path = tmp_path / "model.html"
    program.report(path)
    assert parsed(path)["nodes"][0]["o"] == "Relu"
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *args: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(onnxexp.SerializeError, match="the disk is full.*unharmed"):
        program.report(path)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["model.html"]


def test_permissions_and_links(tmp_path: Path) -> None:
    """The page is written as a model is."""
    made = document(onnxexp.export(torch.nn.ReLU(), (torch.randn(3),)))
    (tmp_path / "link.html").symlink_to("page.html")
    before = os.umask(0o077)
    try:
        write_page(made, tmp_path / "link.html")
    finally:
        os.umask(before)
    page = tmp_path / "page.html"
    assert (tmp_path / "link.html").is_symlink() and page.stat().st_mode & 0o777 == 0o600
    page.chmod(0o640)
    write_page(made, page)
    assert page.stat().st_mode & 0o777 == 0o640 and sorted(os.listdir(tmp_path)) == ["link.html", "page.html"]


def test_a_text_that_is_no_unicode(tmp_path: Path) -> None:
    made = document(onnxexp.export(torch.nn.ReLU(), (torch.randn(3),)), problems=["m\udcff.py, line 3"])
    write_page({**made, "title": "\ud800"}, path := tmp_path / "page.html")
    assert parsed(path)["problems"] == ["m\udcff.py, line 3"]
    assert r"<title>\ud800</title>" in path.read_text("utf-8")


def test_a_name_cannot_end_the_script(tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    program = onnxexp.export(torch.nn.ReLU(), (torch.randn(3),))
    made = document(program)
    write_page({**made, "title": name}, path := tmp_path / "odd.html")
    assert path.read_text("utf-8").count("alert(1)") == 1  # in the title, escaped
    assert parsed(path)["title"] == name


def test_another_ending_is_left_to_other_plugins(tmp_path: Path) -> None:
    with pytest.raises(onnxexp.PluginError, match="no plugin writes a report to .*model.txt.*onnxexp-plugin-report"):
        onnxexp.export(torch.nn.ReLU(), (torch.randn(3),)).report(tmp_path / "model.txt")
