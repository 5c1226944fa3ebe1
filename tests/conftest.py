"""Tiers of the tests that are written as cases, the capture that the rows of a case share, the limits of older releases."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch.export import ExportedProgram

import onnxexp
from onnxexp.testing import Case
from onnxexp.testing.case import CaseRow
from tests.older_releases import pytest_runtest_makereport, skip_faults  # noqa: F401 - one is a hook

gc.set_threshold(50_000, 20, 100)  # a full collection visits a million objects of torch, and finds nothing
NEWEST = onnx.defs.onnx_opset_version()


class Captures:
    """The programs that torch.export captured for one case."""

    def __init__(self) -> None:
        self._case: Case | None = None
        self._programs: dict[tuple[bool, bool], ExportedProgram] = {}

    def capture(self, row: CaseRow, export: Callable[..., ExportedProgram], *args: Any, strict: bool, **kwargs: Any) -> Any:
        """Run torch.export for a row, unless it has run for another row of the case with the same axes."""
        if self._case is not row.case:
            self._case, self._programs = row.case, {}
        key = (row.dynamic, strict)
        if key not in self._programs:
            self._programs[key] = export(*args, strict=strict, **kwargs)
        return self._programs[key]


@dataclasses.dataclass(frozen=True)
class SharedRow(CaseRow):
    """A row that shares its capture with the other opsets of its case.

    The captured program does not depend on the opset, and torch.export takes 88 % of the time of such an export.
    """

    captures: Captures

    def __call__(self) -> onnxexp.ONNXProgram:
        export = torch.export.export
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.export, "export", lambda *args, **kwargs: self.captures.capture(self, export, *args, **kwargs))
            return super().__call__()


def is_full(row: CaseRow) -> bool:
    """Whether a row belongs to the full tier.

    These are the static rows of a case with dynamic axes: the row with dynamic axes at the same opset exports the same operators,
    and runs at the example's sizes as well. Of the opsets, the quick tier has the lowest, the highest, and those for which the
    case has expectations.
    """
    ends = min(row.case.opsets), max(row.case.opsets)
    between = row.opset not in ends and row.opset not in row.case.emits
    return between or bool(row.case.dynamic and not row.dynamic)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the rows of a case share a capture, and assign the rows to their tiers."""
    skip_faults(items)
    captures = Captures()
    for item in items:  # a function without parameters has no callspec
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        row = params.get("check")
        if isinstance(row, CaseRow):
            params["check"] = SharedRow(row.case, row.opset, row.dynamic, captures)
            if is_full(row):
                item.add_marker(pytest.mark.full)
        opset = row.opset if isinstance(row, CaseRow) else params.get("opset")
        if isinstance(opset, int) and opset > NEWEST:
            item.add_marker(pytest.mark.skip(reason=f"onnx {onnx.__version__} knows opsets up to {NEWEST}"))
