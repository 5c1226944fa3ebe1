"""Apply the cure of a message, and the export passes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import onnxexp
from onnxexp import OnnxExporterError, ONNXProgram
from tests.docs.cured_programs import CURES, LINEAR, OPTIONS, WARNINGS, Cure, X

pytestmark = pytest.mark.full


def of_options(message: str, wrong: dict[str, Any], right: dict[str, Any]) -> Cure:
    return Cure(message, lambda: onnxexp.export(LINEAR, (X,), **wrong), lambda: onnxexp.export(LINEAR, (X,), **right))


ERRORS = [*(of_options(*row) for row in OPTIONS), *CURES]


@pytest.mark.parametrize("cure", ERRORS, ids=lambda cure: cure.message)
@pytest.mark.filterwarnings("ignore")
def test_the_cure_of_an_error(cure: Cure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OnnxExporterError) as caught:
        cure.fails()
    assert re.search(cure.message, str(caught.value)), str(caught.value)
    program = cure.cured()
    if isinstance(program, ONNXProgram):
        program.verify()


@pytest.mark.parametrize("cure", WARNINGS, ids=lambda cure: cure.message)
def test_the_cure_of_a_warning(cure: Cure) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cure.fails()
    assert any(re.search(cure.message, str(each.message)) for each in caught), [str(each.message) for each in caught]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cure.cured().verify()
    assert [str(each.message) for each in caught if issubclass(each.category, UserWarning)] == []


def test_there_are_many() -> None:
    assert len({cure.message for cure in [*ERRORS, *WARNINGS]}) >= 60
