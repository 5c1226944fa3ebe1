"""The results on file of PyTorch's own ONNX tests, and how they are judged."""

from __future__ import annotations

import pytest

from . import page
from .known import Known
from .running import RUNS, Result

RUN = RUNS[0].name


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "_RESULTS", tmp_path / "results.json")
    found = {"test_a": Result("passed"), "test_b": Result("failed", "ValueError: one"), "test_c": Result("skipped", "opset")}
    page.record(RUN, "onnxexp", found)
    page.record(RUN, "installed", found)
    page.record(RUN, "torch.onnx", {**found, "test_b": Result("passed")})
    return page.load


def test_a_failure_that_is_not_known_is_an_error(results):
    (error,) = page.unexpected(results(), [])
    assert error == f"{RUN}: test_b fails, and is not in tests/peer_suite/known.py: ValueError: one"


def test_a_known_failure_that_passes_is_an_error(results):
    known = [Known("reason", (RUN,), ("test_b", "test_a"))]
    assert [*page.unexpected(results(), known)] == [f"{RUN}: test_a is in tests/peer_suite/known.py, and does not fail"]


def test_a_failure_with_install_alone_is_an_error(results):
    page.record(RUN, "installed", {"test_a": Result("failed", "ValueError: two"), "test_b": Result("failed", "ValueError: one")})
    assert [*page.unexpected(results(), [Known("reason", (RUN,), ("test_b",))])] == [
        f"{RUN}: test_a fails with install() alone: ValueError: two"
    ]


def test_known_failures_are_a_table(results):
    text = page.text(results(), [Known("The reason.", (RUN,), ("test_b",))])
    assert f"| {RUN} | 1 of 2 | 1 of 2 | 2 of 2 | 1 |" in text
    assert f"| `test_b` | {RUN} | The reason. |" in text


def test_failures_that_ran_again_are_counted_anew(results):
    page.amend(RUN, "onnxexp", {"test_b": Result("passed")})
    assert page.failures(RUN, "onnxexp") == {}
    assert results()["runs"][RUN]["onnxexp"]["counts"] == {"passed": 2, "failed": 0, "skipped": 1}


def test_the_results_are_the_known_ones_and_on_the_page():
    on_file = page.load()
    assert [*page.unexpected(on_file)] == []
    assert page.PAGE.read_text(encoding="utf-8") == page.text(on_file)
