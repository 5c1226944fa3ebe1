"""`make faults`, as tests of the full tier."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from .__main__ import PARTS
from .fault import ONNXEXP, Fault, Row


def _faults() -> list[tuple[str, Fault]]:
    return [(part, fault) for part in PARTS for fault in importlib.import_module(f"{__package__}.{part}").FAULTS]


@pytest.mark.full
@pytest.mark.parametrize(("part", "fault"), [pytest.param(*each, id=f"{each[0]}: {each[1].name}") for each in _faults()])
def test_nothing_goes_wrong(part: str, fault: Fault, tmp_path: Path) -> None:
    row = Row(part, fault.name, ONNXEXP)
    fault.cause(row, tmp_path)
    assert row.tries and not row.bad
