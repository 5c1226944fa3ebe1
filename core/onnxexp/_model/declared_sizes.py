"""The sizes that a model declares as numbers, names or expressions of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxexp._symbolic_size import SymbolicSize


def symbol_values(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the value of each symbol that is the size of an axis of an input."""
    found: dict[str, int] = {}
    for name, sizes in declared.items():
        for size, given in zip(sizes, shapes[name], strict=False):  # the pairs of complex numbers have an axis more
            if SymbolicSize(size).is_name:
                found.setdefault(size, given)
    return found


def contradiction(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> str:
    """Describe the first axis that has another size than the declared one, or "".

    Axes of one name have one size.
    """
    values = symbol_values(declared, shapes)
    for name, sizes in declared.items():
        for axis, (size, given) in enumerate(zip(sizes, shapes[name], strict=False)):
            if (wanted := SymbolicSize(size).at(values)) not in (None, given):
                return f"axis {axis} of input {name} is {size}, which is {wanted} in this call, but it has {given} elements"
    return ""
