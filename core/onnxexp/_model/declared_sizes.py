"""The sizes that a model declares, and short names for long expressions of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

import onnx_ir as ir

from onnxexp._request.unique_names import UniqueNames
from onnxexp._symbolic_size import SymbolicSize

SIZES_KEY = "onnxexp.sizes"
"""The key of the file's metadata with the expressions of shortened sizes."""
_LONGEST = 40
"""Characters of an expression that a shape shows itself."""
_OPERATORS = frozenset("+*/(")


def shorten_sizes(model: ir.Model) -> dict[str, str]:
    """Name each long size by the first value and axis that have it, as ``y_dim_2``.

    Outputs come first. Equal sizes keep one name. Changes the shapes in place, and returns the metadata with the expressions.
    """
    values = list(_values(model.graph))
    texts = {size.value for value in values for size in value.shape or () if isinstance(size, ir.SymbolicDim)}
    if not any(map(_is_long, texts)):
        return {}
    names: dict[str, str] = {}
    for value in values:
        for axis, size in enumerate(value.shape or ()):
            text = size.value if isinstance(size, ir.SymbolicDim) else None
            if _is_long(text) and text not in names:
                names[text] = UniqueNames({*filter(None, texts), *names.values()}).unique(f"{value.name}_dim_{axis}")
    for value in values:
        if value.shape is not None:
            sizes = [size.value if isinstance(size, ir.SymbolicDim) else size for size in value.shape]
            if not names.keys().isdisjoint(sizes):
                value.shape = ir.Shape([names.get(size, size) if isinstance(size, str) else size for size in sizes])
    return {SIZES_KEY: "; ".join(f"{name} = {text}" for text, name in names.items())} if names else {}


def _is_long(text: str | None) -> TypeGuard[str]:
    """Return whether a size is a long expression, not a user's name of any length."""
    return text is not None and len(text) > _LONGEST and not _OPERATORS.isdisjoint(text)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the outputs of a graph, then those of its nodes, also of their bodies."""
    yield from graph.outputs
    for node in ir.traversal.RecursiveGraphIterator(graph):
        yield from node.outputs


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
