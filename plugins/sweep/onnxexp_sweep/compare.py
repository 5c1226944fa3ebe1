"""What changed between two sweeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxexp_sweep.progress import short_reason
from onnxexp_sweep.results import latest, read, rows
from onnxexp_sweep.versions import PACKAGES

_COLUMNS = (
    "cell", "status", "step", "reason", "export_seconds", "peak_bytes", "nodes", "file_bytes",
    *(name.replace("-", "_") for name in PACKAGES), "plugins",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """From which ratio on a change of a number counts.

    Attributes:
        slower: The ratio of the times of the export.
        seconds: The least difference of the times, since short ones vary by more.
        larger: The ratio of nodes, bytes of the files, and memory.
    """

    slower: float = 1.5
    seconds: float = 0.5
    larger: float = 1.1


@dataclasses.dataclass(frozen=True)
class Change:
    """One cell that changed: its name, and what it was and is in words."""

    cell: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The changes between two sweeps.

    Attributes:
        changes: The changes by kind, such as "newly failing"; kinds without changes are there too.
        versions: The versions that differ, as ``torch 2.13.0 and 2.14.0``.
        same: The number of cells that both have, without a change.
    """

    changes: Mapping[str, Sequence[Change]]
    versions: Sequence[str]
    same: int

    @property
    def worse(self) -> bool:
        """Whether a cell fails that did not."""
        return bool(self.changes["newly failing"])


def compare(first: Path, second: Path, thresholds: Thresholds) -> Comparison:
    """Compare the results in two folders, a cell with the cell of the same name.

    Where a folder has a cell with several versions, its newest result counts.

    Raises OptionError where a folder has no results.
    """
    before, after = (_by_cell(folder) for folder in (first, second))
    changes: dict[str, list[Change]] = {
        kind: []
        for kind in (
            "newly failing", "fixed", "fails otherwise", "slower", "faster", "larger", "smaller", "more memory", "less memory",
            f"only in {first}", f"only in {second}",
        )
    }  # fmt: skip
    same = 0
    for cell in {**before, **after}:
        old, new = before.get(cell), after.get(cell)
        if old is None or new is None:
            changes[f"only in {first if old is not None else second}"].append(Change(cell, _state(old), _state(new)))
            continue
        found = list(_changes(cell, old, new, thresholds))
        same += not found
        for kind, change in found:
            changes[kind].append(change)
    return Comparison(changes, _version_changes(before, after), same)


def _by_cell(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["cell"]: row for row in rows(latest(read(folder, _COLUMNS), "cell"))}


def _changes(cell: str, old: Mapping[str, Any], new: Mapping[str, Any], thresholds: Thresholds) -> Iterator[tuple[str, Change]]:
    worked, works = old["status"] == "ok", new["status"] == "ok"
    if worked != works or not works:
        kind = "newly failing" if worked else "fixed" if works else "fails otherwise"
        if kind != "fails otherwise" or _state(old) != _state(new):
            yield kind, Change(cell, _state(old), _state(new))
        return
    numbers: tuple[tuple[str, str, str, Callable[[float], str], float, float], ...] = (
        ("export_seconds", "slower", "faster", _seconds, thresholds.slower, thresholds.seconds),
        ("nodes", "larger", "smaller", lambda value: f"{value:.0f} nodes", thresholds.larger, 0),
        ("file_bytes", "larger", "smaller", _bytes, thresholds.larger, 0),
        ("peak_bytes", "more memory", "less memory", _bytes, thresholds.larger, 0),
    )
    for column, more, less, text, ratio, least in numbers:
        one, two = old[column], new[column]
        if one is None or two is None or abs(two - one) <= least:
            continue
        if two > one * ratio or one > two * ratio:
            yield more if two > one else less, Change(cell, text(one), text(two))


def _version_changes(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> list[str]:
    old, new = _versions(before), _versions(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [f"{name}: {_listed(old.get(name))} and {_listed(new.get(name))}" for name in names]


def _versions(found: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the versions of each package in all rows."""
    versions: dict[str, set[str]] = {}
    for row in found.values():
        own = [*((name, row[name.replace("-", "_")]) for name in PACKAGES), *(row["plugins"] or ())]
        for name, version in own:
            versions.setdefault(name, set()).add(version or "")
    return versions


def _listed(versions: set[str] | None) -> str:
    return " or ".join(sorted(each or "missing" for each in versions)) if versions else "missing"


def _state(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "none"
    return "ok" if row["status"] == "ok" else f"{row['status']}: {short_reason(row)}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _bytes(value: float) -> str:
    return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value:,.0f} bytes"
