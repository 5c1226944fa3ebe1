"""Arithmetic on sizes: ints and symbolic expressions as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

Dim: TypeAlias = int | str

_SYMBOL = re.compile(r"[\w.]+")


def product_of(sizes: Sequence[Dim]) -> Dim | None:
    """Return the product in the captured program's notation (``4*batch``), else None."""
    number = math.prod(size for size in sizes if isinstance(size, int))
    symbols = sorted(size for size in sizes if isinstance(size, str))
    if not symbols:
        return number
    if len(symbols) == 1 and number == 1:
        return symbols[0]
    if not all(_SYMBOL.fullmatch(symbol) for symbol in symbols):
        return None
    return "*".join(symbols if number == 1 else [str(number), *symbols])


def partition(fine: Sequence[Dim], coarse: Sequence[Dim]) -> list[list[int]] | None:
    """Find consecutive fine axes whose product is each coarse axis, else return None."""
    groups: list[list[int]] = []
    place = 0
    for size in coarse:
        group: list[int] = []
        while place < len(fine) and (not group or product_of([fine[axis] for axis in group]) != size):
            group.append(place)
            place += 1
        if not group or product_of([fine[axis] for axis in group]) != size:
            return None
        groups.append(group)
    if any(fine[axis] != 1 for axis in range(place, len(fine))) or not groups:
        return None
    groups[-1].extend(range(place, len(fine)))
    return groups
