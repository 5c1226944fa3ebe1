"""The results, in docs/reference/compatibility.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.packaging.environments import ROOT

from .environments import FIRST

DATA = ROOT / "docs" / "reference" / "compatibility.json"

Results = dict[str, dict[str, dict[str, Any]]]
"""Row -> part -> figures, with the commit and the date."""

POINTS = 1.0
"""The largest accepted difference between the passing share of the slice and that of the first environment."""


def load(file: Path = DATA) -> Results:
    """Return the results of earlier runs, or {}."""
    results: Results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return results


def save(results: Results, file: Path = DATA) -> None:
    """Write the results; a run that is stopped meanwhile leaves the old file."""
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    beside.replace(file)


def share(part: dict[str, Any]) -> float:
    """Return the passing share of a conformance slice, in percent."""
    return 100.0 * part["passed"] / part["samples"]


def green(results: Results, name: str, part: str) -> bool | None:
    """Return whether a part of a row is as it must be; None if it was not run."""
    figures = results.get(name, {}).get(part)
    if figures is None:
        return None
    if "problem" in figures:
        return False
    if part == "tests":
        return bool(figures["failed"] == 0 and figures["passed"])
    if part == "conformance":
        first = results.get(FIRST.name, {}).get(part, {})
        return "samples" in first and share(first) - share(figures) <= POINTS
    return True
