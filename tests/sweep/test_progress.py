"""What a sweep shows while it runs."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from onnxexp_sweep.progress import SweepProgress

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
        progress.started({"key": name, "name": f"{name}/20/trace", "worker": f"here {name}"})
    clock += 30
    progress.ended("one", "one/20/trace", FAILED)
    assert progress.remaining == 90
    text = shown(progress)
    assert "1 of 4 cells" in text and "1 failed" in text and "3 done before" in text and "1 min 30 s left" in text
    assert "here two" in text and "two/20/trace" in text and "here one" not in text
    line = "failed: one/20/trace: export: opset 9 has no Gelu"
    assert line in text and capsys.readouterr().err == f"{line}\n", "without a terminal a line for each failure"


def test_a_cell_that_begins_again_is_shown_once() -> None:
    """Its first worker was killed."""
    progress = SweepProgress(1, 0)
    for worker in ("first", "second"):
        progress.started({"key": "one", "name": "one/20/trace", "worker": worker})
    text = shown(progress)
    assert "second" in text and "first" not in text


def test_many_cells_and_failures_stay_short() -> None:
    progress = SweepProgress(100, 0)
    for number in range(50):
        event: dict[str, Any] = {"key": str(number), "name": f"cell{number}", "worker": "here"}
        progress.started(event)
        progress.ended(f"other{number}", f"other{number}", FAILED)
    lines = shown(progress).splitlines()
    assert len(lines) < 35 and "and 30 more" in "\n".join(lines)
