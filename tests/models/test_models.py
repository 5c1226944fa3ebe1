"""Every model exports with dynamic axes, passes onnx's full checker, and agrees with eager at the example's sizes and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import classic_vision, huggingface, sequence
from .case import ModelCase
from .harness import check_case

CASES: dict[str, ModelCase] = classic_vision.CASES | sequence.CASES | huggingface.CASES


def runs() -> Iterator[Any]:
    """Each case at each of its opsets; one of them belongs to the quick tier."""
    for case in CASES.values():
        for opset in case.opsets:
            marks = [] if opset == case.quick_opset else [pytest.mark.full]
            yield pytest.param(case, opset, id=f"{case.name}-{opset}", marks=marks)


@pytest.mark.parametrize(("case", "opset"), list(runs()))
def test_agrees_with_eager(case: ModelCase, opset: int) -> None:
    check_case(case, opset)


def test_quick_tier_has_every_model() -> None:
    assert [case.name for case in CASES.values() if case.quick_opset not in case.opsets] == []
