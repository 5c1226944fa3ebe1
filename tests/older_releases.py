"""Tests that need a newer opset than the installed onnx or ONNX Runtime knows: skipped, with the limit as the reason."""

from __future__ import annotations

import re
from collections.abc import Generator

import onnx
import pytest

__all__ = ["LIMITED", "limit"]

LIMITED = onnx.defs.onnx_opset_version() < 26
"""Whether a test may hit a limit; with newer releases, a failure that quotes one is a failure."""

_LIMITS = re.compile(r"onnx \S+ knows opsets up to \d+|Opset \d+ is under development")


def limit(failure: str) -> str:
    """Return the limit of a release that a failure quotes, "" if there is none."""
    found = _LIMITS.search(failure)
    return found[0] if found else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    reason = limit(str(report.longrepr)) if LIMITED and report.failed else ""
    if reason:
        file, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (file, line or 0, f"Skipped: {reason}")
    return report
