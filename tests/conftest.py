"""The tiers of cases, captures that a case's rows share, limits of older releases."""

from __future__ import annotations

import dataclasses
import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch.export import ExportedProgram

import onnxexp
from onnxexp.testing import Case
from onnxexp.testing._case import CaseRow
from tests.older_releases import pytest_runtest_makereport, skip_faults  # noqa: F401 - one is a hook

SAMPLED = {
    "checking/test_planted_faults.py": 3,
    "conformance/test_conformance.py": 8,
    "core/test_builder_schemas.py": 3,
    "core/test_cli_signals.py": 3,
    "core/test_damaged_distributions.py": 3,
    "core/test_higher_order.py": 2,
    "core/test_reentrancy.py": 3,
    "custom_cpp/test_exports.py": 3,
    "docs/test_code_blocks.py": 3,
    "models/test_checkpoints.py": 5,
    "models/test_models.py": 5,
    "models/test_recurrent.py": 3,
    "ort/test_cached_attention.py": 4,
    "ort/test_static_cache.py": 5,
    "packaging/test_broken.py": 0,
    "packaging/test_core_alone.py": 4,
    "packaging/test_locks.py": 4,
    "packaging/test_packs.py": 2,
    "packaging/test_readme.py": 3,
    "packaging/test_release.py": 4,
    "quantized/test_torchao.py": 3,
    "sweep/test_cell_server.py": 3,
    "torchscript/test_call_probes.py": 3,
    "torchscript/test_frontends.py": 3,
    "torchscript/test_size_check.py": 3,
    "torchvision/test_operators.py": 5,
    "transformers/test_caches.py": 4,
    "transformers/test_export_folder.py": 3,
    "transformers/test_genai.py": 4,
    "transformers/test_shared_buffers.py": 4,
    "transformers/test_tasks.py": 4,
    "transformers/test_text_generation.py": 3,
}
"""Slow files. The quick tier runs every n-th test of each, and none where n is 0."""
gc.set_threshold(50_000, 20, 100)  # a full collection visits a million objects of torch, and finds nothing
TESTS = Path(__file__).parent
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


def is_full(row: CaseRow) -> bool:
    """Return whether a row belongs to the full tier.

    The full tier has the static rows of a case with dynamic axes: the row with dynamic axes at the same opset exports the same
    operators, and runs at the example's sizes as well. The quick tier has the highest opset, and those for which the case has
    expectations.
    """
    below = row.opset != max(row.case.opsets) and row.opset not in row.case.emits
    return below or bool(row.case.dynamic and not row.dynamic)


def is_left_out(item: pytest.Item, places: Counter[str]) -> bool:
    """Return whether the quick tier leaves out a test of a slow file.

    `places` counts the tests of each file.
    """
    name = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
    if name not in SAMPLED or item.get_closest_marker("full"):
        return False
    places[name] += 1
    return SAMPLED[name] == 0 or places[name] % SAMPLED[name] != 1


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the rows of a case share a capture, and assign the rows to their tiers."""
    skip_faults(items)
    captures, places = Captures(), Counter[str]()
    for item in items:  # a function without parameters has no callspec
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        row = params.get("check")
        if isinstance(row, CaseRow):
            params["check"] = SharedRow(row.case, row.opset, row.dynamic, captures)
            if is_full(row):
                item.add_marker(pytest.mark.full)
        if is_left_out(item, places):
            item.add_marker(pytest.mark.full)
        opset = row.opset if isinstance(row, CaseRow) else params.get("opset")
        if isinstance(opset, int) and opset > NEWEST:
            item.add_marker(pytest.mark.skip(reason=f"onnx {onnx.__version__} knows opsets up to {NEWEST}"))
