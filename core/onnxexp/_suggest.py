"""Suggest the nearest known name in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` if a known name is close, else ``""``."""
    names = list(known)
    longer = [each for each in names if len(name) > 2 and each.startswith(name) and each != name]
    close = difflib.get_close_matches(name, names, n=1) or longer
    return f" (did you mean {close[0]!r}?)" if close else ""
