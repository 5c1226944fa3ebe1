"""Tests that an older onnx or ONNX Runtime limits: skipped, with the limit as the reason."""

from __future__ import annotations

import re
from collections.abc import Generator

import onnx
import onnxruntime
import pytest
from packaging.version import Version

__all__ = ["LIMITED", "RUNTIME", "limit"]

RUNTIME = Version(onnxruntime.__version__).release[:2]
LIMITED = onnx.defs.onnx_opset_version() < 26 or RUNTIME < (1, 31)
"""Whether a test may hit a limit. Today's releases have none, so with them a failure that quotes one is a failure."""

_LIMITS = {
    re.compile(r"onnx \S+ knows opsets up to \d+"): "{}",
    re.compile(r"Opset (\d+) is under development"): "{runtime} does not take opset {}",
    re.compile(r"max supported IR version: (\d+)"): "{runtime} takes IR versions up to {}",
    re.compile(r"Could not find an implementation for (\w+\(\d+\))"): "{runtime} has no kernel of {} for the dtype",
    re.compile(
        r"Failed to find kernel for (com\.microsoft\.\w+)"
    ): "{runtime} makes {} of other nodes and has no kernel for the dtype",
    re.compile(r"Error Node \((?:\S*/)?(\w+)\) has input size"): "{runtime} knows fewer inputs of {}",
}


def limit(failure: str) -> str:
    """Return the limit of a release that a failure quotes, "" if there is none."""
    for pattern, reason in _LIMITS.items():
        if found := pattern.search(failure):
            return reason.format(found[found.lastindex or 0], runtime=f"onnxruntime {onnxruntime.__version__}")
    return ""


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
