"""The changes between two sweeps, on the command line and as a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from onnxexp_sweep.html_page import page
from onnxexp_sweep.results import Results, read
from onnxexp_sweep.results import rows as rows_of
from tests.core.commanding import run
from tests.sweep.rows import VERSIONS, cells, rows

FAILED = {"status": "failed", "step": "export", "kind": "OpsetError", "reason": "opset 9 has no <Gelu>\nmore"}


def store(folder: Path, *outcomes: dict[str, Any], versions: dict[str, str] = VERSIONS) -> Path:
    """Store a result for each outcome, each of a model of its own."""
    with Results(folder) as results:
        for cell, outcome in zip(cells(len(outcomes)), outcomes, strict=True):
            results.append(next(rows([cell], versions, **outcome)))
    return folder


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    first = store(tmp_path / "first", {}, FAILED, FAILED, {}, {}, {}, FAILED)
    second = store(
        tmp_path / "second",
        FAILED, {}, {**FAILED, "reason": "other"}, {"export_seconds": 5.0}, {"nodes": 20, "peak_bytes": 10**9}, {}, FAILED, {},
        versions=VERSIONS | {"torch": "2.14.0"},
    )  # fmt: skip
    return first, second


def test_each_kind_of_change(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    first, second = two
    ran = run(capsys, "sweep", "--compare", str(first), str(second), "--json")
    changes = {kind: [each["cell"] for each in found] for kind, found in ran.document["changes"].items() if found}
    assert changes == {
        "newly failing": ["model0/9/export"], "fixed": ["model1/9/export"], "fails otherwise": ["model2/9/export"],
        "slower": ["model3/9/export"], "larger": ["model4/9/export"], "more memory": ["model4/9/export"],
        f"only in {second}": ["model7/9/export"],
    }  # fmt: skip
    assert (ran.status, ran.document["same"], ran.document["versions"]) == (1, 2, ["torch: 2.13.0 and 2.14.0"])
    (slower,) = ran.document["changes"]["slower"]
    assert (slower["before"], slower["after"]) == ("2.00 s", "5.00 s")


def test_the_thresholds(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    ran = run(capsys, "sweep", "--compare", *map(str, two), "--slower", "3", "--larger", "2", "--json")
    assert not any(ran.document["changes"][kind] for kind in ("slower", "larger", "more memory"))
    assert "a ratio of 1 or more" in run(capsys, "sweep", "--compare", *map(str, two), "--slower", "0.5").err


def test_as_text(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    ran = run(capsys, "sweep", "--compare", *map(str, two))
    assert "torch: 2.13.0 and 2.14.0" in ran.out and "newly failing: 1" in ran.out
    assert re.search(r"model0/9/export +ok +failed: export: opset 9 has no <Gelu>\n", ran.out)
    assert run(capsys, "sweep", "--compare", str(two[0]), str(two[0])).out.strip() == "7 unchanged"


def test_equal_sweeps_are_status_0(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    assert run(capsys, "sweep", "--compare", str(two[0]), str(two[0])).status == 0


def test_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "give a zoo file to run it, or --html" in run(capsys, "sweep", "-o", str(tmp_path)).err
    assert "give the folder of results by -o" in run(capsys, "sweep", "zoo.toml").err
    assert "has no results of a sweep" in run(capsys, "sweep", "--compare", str(tmp_path), str(tmp_path)).err
    assert "leave one of them out" in run(capsys, "sweep", "zoo.toml", "--compare", "a", "b").err


def test_the_page_has_everything_in_one_file(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert run(capsys, "sweep", "-o", str(two[1]), "--html", str(file)).status == 0
    text = file.read_text("utf-8")
    assert not re.search(r'(?:src|href)="|@import|url\(', text), "it loads nothing from elsewhere"
    (data,) = re.findall(r'<script id="rows" type="application/json">(.*?)</script>', text, re.DOTALL)
    document = json.loads(data)
    assert len(document["rows"]) == 8
    status, reason = (document["columns"].index(name) for name in ("status", "reason"))
    assert [row[status] for row in document["rows"]].count("failed") == 3
    assert document["rows"][0][reason] == FAILED["reason"]
    assert text.count("<rect ") == 8 and text.count("<circle ") == 2 * 5, "a square for each cell, and a dot for each number"


def test_the_page_of_a_comparison(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    run(capsys, "sweep", "--compare", *map(str, two), "--html", str(file))
    text = file.read_text("utf-8")
    assert "<h2>newly failing: 1</h2>" in text and "opset 9 has no &lt;Gelu&gt;" in text


def test_texts_of_models_cannot_leave_their_place(two: tuple[Path, Path]) -> None:
    (row,) = rows_of(read(store(two[0].parent / "third", {**FAILED, "reason": "</script><b>&"})))
    text = page("<i>", [row])
    assert "<b>" not in text.split("<script>")[0].replace("<b>1</b><span", "") and "<title>&lt;i&gt;</title>" in text
