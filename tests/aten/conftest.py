"""Fixtures of the aten plugin's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from onnxexp.testing.case import CaseRow


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the full tier the static rows of a case with dynamic axes, except at its first and last opset.

    The row with dynamic axes at the same opset exports the same operators, and runs at the example's sizes as well.
    """
    for item in items:  # a function without parameters has no callspec
        row = item.callspec.params.get("check") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        if isinstance(row, CaseRow) and row.case.dynamic and not row.dynamic:
            between = set(row.case.opsets) - {min(row.case.opsets), max(row.case.opsets)}
            if row.opset in between:
                item.add_marker(pytest.mark.full)


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """oneDNN compiles eager's LSTM for every shape anew, which takes longer than all else in the tests of recurrent layers."""
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(True)
