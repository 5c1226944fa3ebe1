"""The tier of each test, captures that a case's rows share, limits of older releases."""

from __future__ import annotations

import dataclasses
import gc
import zlib
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch.export import ExportedProgram

import onnxexp
from onnxexp.testing import Case
from onnxexp.testing._case import CaseRow
from tests.older_releases import pytest_runtest_makereport, skip_faults  # noqa: F401 - one is a hook
from tests.tiers import choose_quick_tier, params_of, row_of

gc.set_threshold(50_000, 20, 100)  # a full collection visits a million objects of torch, and finds nothing
NEWEST = onnx.defs.onnx_opset_version()


class Captures:
    """The programs that torch.export captured for one case."""

    def __init__(self) -> None:
        self._case: Case | None = None
        self._programs: dict[tuple[bool, bool], ExportedProgram] = {}

    def capture(self, row: CaseRow, export: Callable[..., ExportedProgram], *args: Any, strict: bool, **kwargs: Any) -> Any:
        """Run torch.export for a row, or return the program of a row with the same axes."""
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


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Draw random numbers that depend on the name of the test, and not on the tests before it.

    `torch.manual_seed` takes a millisecond: it records the stack for a later start of CUDA.
    """
    torch.default_generator.manual_seed(zlib.crc32(request.node.name.encode()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, default=0, help="the number of the sample of rows that the quick tier runs")


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Assign the tests to their tiers, and let the rows of a case share a capture."""
    skip_faults(items)
    choose_quick_tier(items, config.getoption("--sample"))
    captures = Captures()
    for item in items:
        params, row = params_of(item), row_of(item)
        if row is not None:
            params["check"] = SharedRow(row.case, row.opset, row.dynamic, captures)
        opset = params.get("opset") if row is None else row.opset
        if isinstance(opset, int) and opset > NEWEST:
            item.add_marker(pytest.mark.skip(reason=f"onnx {onnx.__version__} knows opsets up to {NEWEST}"))
