"""benchmarks/decoding.py: contenders decode in turn, must agree, and are profiled."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from benchmarks import decoding, tables
from benchmarks.decoding import COMPOSED, CONTRIB, EAGER
from benchmarks.results import Run


def counting(*names: tuple[str, str], step: int = 1) -> dict[tuple[str, str], Any]:
    """Make contenders that count."""
    return {name: ([token] for token in itertools.count(0, step)) for name in names}


def test_ratios_compare_the_contenders_that_are_there() -> None:
    streams = counting(("past", EAGER), ("past", COMPOSED), ("past", CONTRIB), ("static", CONTRIB))
    found = decoding._compare(streams, "1 thread", time.perf_counter)
    assert set(found["1 thread, past"]) == {EAGER, COMPOSED, CONTRIB, "contrib ÷ onnxexp", "onnxexp ÷ eager", decoding.SHARED}
    assert set(found["1 thread, static"]) == {CONTRIB, decoding.SHARED}
    assert all(figure > 0 for figures in found.values() for figure in figures.values())
    run = Run({}, {}, [], decoding=found)
    (table,) = [table for table in tables.tables(run) if table.title == "Decoding"]
    assert {len(row) for row in table.rows} == {len(table.header)}


def test_other_tokens_end_the_run() -> None:
    streams = counting(("past", EAGER)) | counting(("past", COMPOSED), step=2)
    with pytest.raises(SystemExit, match="disagree about token 1"):
        decoding._compare(streams, "1 thread", time.perf_counter)


def event(operator: str, start: int, duration: int) -> dict[str, Any]:
    return {"cat": "Node", "name": f"{operator}_kernel_time", "ts": start, "dur": duration, "args": {"op_name": operator}}


def test_shares_leave_out_the_prompt_and_what_contains_others() -> None:
    runs = [{"cat": "Session", "name": "model_run", "ts": start, "dur": 10} for start in (10, 0)]
    nodes = [event("MatMul", 1, 9), event("MatMul", 11, 3), event("If", 14, 2), event("Add", 15, 1)]
    assert decoding.shares([*nodes, *runs]) == {"MatMul": 0.75, "Add": 0.25, decoding.OTHERS: 0.0}
    run = Run({}, {}, [], decoding_shares={"onnxexp": {"MatMul": 0.75, decoding.OTHERS: 0.25}})
    (table,) = [table for table in tables.tables(run) if table.title == "Decoding, operators"]
    assert table.rows == [("onnxexp", "MatMul 0.75, others 0.25")]
