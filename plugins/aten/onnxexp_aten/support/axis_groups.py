"""Axes whose product is another axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxexp.graph import Dim


def partition(fine: Sequence[Dim], coarse: Sequence[Dim]) -> list[list[int]] | None:
    """Find consecutive fine axes whose product is each coarse axis, else return None."""
    groups: list[list[int]] = []
    place = 0
    for size in coarse:
        group: list[int] = []
        while place < len(fine) and (not group or math.prod(fine[axis] for axis in group) != size):
            group.append(place)
            place += 1
        if not group or math.prod(fine[axis] for axis in group) != size:
            return None
        groups.append(group)
    if any(fine[axis] != 1 for axis in range(place, len(fine))) or not groups:
        return None
    groups[-1].extend(range(place, len(fine)))
    return groups
