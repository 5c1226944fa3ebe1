"""Sizes as `Tensor.shape` has them: ints, and the text of symbolic ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Dim", "partition", "product_of"]

Dim: TypeAlias = int | str

_SYMBOL = re.compile(r"[\w.]+")


def product_of(sizes: Sequence[Dim]) -> Dim | None:
    """The product, in the words in which a captured program says it (``4*batch``); None where it has no simple ones."""
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
    """For each of the coarse axes the consecutive fine ones that it is the product of; None where it is no such product."""
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
