"""benchmarks/decoding.py: contenders decode in turn, and must agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import decoding, tables
from benchmarks.results import Run


class Counting:
    """A contender that counts from the token on."""

    def __init__(self, step: int = 1) -> None:
        self._step = step

    def decode(self, token: int, past: Any) -> Iterator[int]:
        while True:
            yield (token := token + self._step)


def test_ratios_compare_the_contenders_that_are_there() -> None:
    contenders: Any = {decoding.EAGER: Counting(), decoding.COMPOSED: Counting(), decoding.CONTRIB: Counting()}
    found = decoding._compare(contenders, None)
    assert set(found) == {*contenders, "contrib ÷ onnxexp", "onnxexp ÷ eager"}
    assert all(figure > 0 for figure in found.values())
    run = Run({}, {}, [], decoding={"1 thread": found | {decoding.SHARE: 0.8}})
    (table,) = [table for table in tables.tables(run) if table.title == "Decoding"]
    assert len(table.rows[0]) == len(table.header)
    assert table.rows[0][-1] == "0.80"


def test_other_tokens_end_the_run() -> None:
    contenders: Any = {decoding.EAGER: Counting(), decoding.COMPOSED: Counting(2)}
    with pytest.raises(SystemExit, match="disagree about token 0"):
        decoding._compare(contenders, None)
