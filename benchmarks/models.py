"""All benchmark models by name, small ones first within each family."""

from __future__ import annotations

from . import basic, pretrained
from .case import BenchCase

CASES: dict[str, BenchCase] = {case.name: case for case in (*basic.CASES, *pretrained.CASES)}


def chosen(names: str | None, quick: bool) -> list[str]:
    """Return the names to run: the comma-separated `names`, the quick ones, or all.

    Raises:
        SystemExit: A name is unknown.
    """
    if names is None:
        return [case.name for case in CASES.values() if case.quick or not quick]
    picked = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in picked if name not in CASES]
    if unknown or not picked:
        raise SystemExit(f"no such benchmark model: {', '.join(unknown) or '(none given)'}; there are {', '.join(CASES)}")
    return picked
