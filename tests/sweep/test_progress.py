"""The progress that a sweep shows while it runs."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from onnxexp_sweep.progress import SweepProgress, short_reason

FAILED = {"status": "failed", "step": "export", "reason": "opset 9 has no Gelu\nmore"}


def shown(progress: SweepProgress) -> str:
    stream = io.StringIO()
    Console(file=stream, width=160).print(progress)
    return stream.getvalue()


def test_what_runs_where_what_failed_and_the_rest(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    progress = SweepProgress(4, 3)
    assert progress.remaining is None
    for name in ("one", "two"):
        progress.started({"key": name, "name": f"{name}/20/trace", "place": f"here {name}"})
    clock += 30
    progress.ended("one", "one/20/trace", FAILED)
    assert progress.remaining == 90
    text = shown(progress)
    assert "1 of 4 cells" in text and "1 failed" in text and "3 done before" in text and "1 min 30 s left" in text
    assert "here two" in text and "two/20/trace" in text and "here one" not in text
    line = "failed: one/20/trace: export: opset 9 has no Gelu"
    assert line in text
    figures = "1 of 4 cells, 1 failed, 3 done before, 30 s, 1 min 30 s left"
    assert capsys.readouterr().err == f"{line}\n{figures}\n", "without a terminal a line for each failure and half minute"
    clock += 1
    progress.ended("two", "two/20/trace", {"status": "ok"})
    assert capsys.readouterr().err == ""
    clock += 30
    progress.ended("three", "three/20/trace", {"status": "ok"})
    assert capsys.readouterr().err == "3 of 4 cells, 1 failed, 2 ok, 3 done before, 1 min 01 s, 20 s left\n"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("one\ntwo", "verify: one"),
        ("1 of 1 outputs differ:\n  y: 3 of 4", "verify: 1 of 1 outputs differ: y: 3 of 4"),
        ("first:", "verify: first:"),
        (f"where {'n is 1, ' * 99}: no such node", f"verify: where {'n is 1, ' * 18} ... {'n is 1, ' * 17}: no such node"),
        (None, "verify: no reason"),
    ],
)
def test_a_reason_in_one_line(reason: str | None, expected: str) -> None:
    found = short_reason({"step": "verify", "reason": reason})
    assert found == expected or (len(found) < 320 and found.startswith("verify: where n is 1") and found.endswith("no such node"))


def test_a_cell_that_begins_again_is_shown_once() -> None:
    """The first worker of the cell was killed."""
    progress = SweepProgress(1, 0)
    for worker in ("first", "second"):
        progress.started({"key": "one", "name": "one/20/trace", "place": worker})
    text = shown(progress)
    assert "second" in text and "first" not in text


def test_many_cells_and_failures_stay_short() -> None:
    progress = SweepProgress(100, 0)
    for number in range(50):
        event: dict[str, Any] = {"key": str(number), "name": f"cell{number}", "place": "here"}
        progress.started(event)
        progress.ended(f"other{number}", f"other{number}", FAILED)
    lines = shown(progress).splitlines()
    assert len(lines) < 35 and "and 30 more" in "\n".join(lines)
