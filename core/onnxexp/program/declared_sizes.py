"""The sizes that a model declares: numbers, symbols, expressions of symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["contradiction", "size_at", "symbol_values"]

_SYMBOL = re.compile(r"[^\W\d][\w.]*")
"""The name of an axis, also within ``2*batch + 1``: an identifier, or one with dots (``args.0_dim_1``)."""


def symbol_values(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the value of each symbol that is the size of an axis of an input."""
    found: dict[str, int] = {}
    for name, sizes in declared.items():
        for size, given in zip(sizes, shapes[name], strict=False):  # the pairs of complex numbers have an axis more
            if _SYMBOL.fullmatch(size):
                found.setdefault(size, given)
    return found


def size_at(size: str, values: Mapping[str, int]) -> int | None:
    """Evaluate a declared size; None where a symbol or a function is unknown."""
    numbers = _SYMBOL.sub(lambda found: str(values.get(found[0], found[0])), size)
    try:
        return int(eval(numbers, {"__builtins__": {}, "max": max, "min": min}))
    except (ArithmeticError, NameError, SyntaxError, TypeError):
        return None


def contradiction(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> str:
    """Describe the first axis that has another size than the declared one, or "".

    Axes of one name have one size.
    """
    values = symbol_values(declared, shapes)
    for name, sizes in declared.items():
        for axis, (size, given) in enumerate(zip(sizes, shapes[name], strict=False)):
            if (wanted := size_at(size, values)) not in (None, given):
                return f"axis {axis} of input {name} is {size}, which is {wanted} in this call, but it has {given} elements"
    return ""
