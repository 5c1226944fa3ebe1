"""Apply the fix of a message, and the export passes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import onnxexp
from onnxexp import OnnxExporterError, ONNXProgram
from tests.docs.fixed_programs import FIXES, LINEAR, OPTIONS, WARNINGS, Fix, X

pytestmark = pytest.mark.full


def of_options(message: str, wrong: dict[str, Any], right: dict[str, Any]) -> Fix:
    return Fix(message, lambda: onnxexp.export(LINEAR, (X,), **wrong), lambda: onnxexp.export(LINEAR, (X,), **right))


ERRORS = [*(of_options(*row) for row in OPTIONS), *FIXES]


@pytest.mark.parametrize("fix", ERRORS, ids=lambda fix: fix.message)
@pytest.mark.filterwarnings("ignore")
def test_the_fix_of_an_error(fix: Fix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OnnxExporterError) as caught:
        fix.fails()
    assert re.search(fix.message, str(caught.value)), str(caught.value)
    program = fix.fixed()
    if isinstance(program, ONNXProgram):
        program.verify()


@pytest.mark.parametrize("fix", WARNINGS, ids=lambda fix: fix.message)
def test_the_fix_of_a_warning(fix: Fix) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fix.fails()
    assert any(re.search(fix.message, str(each.message)) for each in caught), [str(each.message) for each in caught]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fix.fixed().verify()
    assert [str(each.message) for each in caught if issubclass(each.category, UserWarning)] == []


def test_there_are_many() -> None:
    assert len({fix.message for fix in [*ERRORS, *WARNINGS]}) >= 60
