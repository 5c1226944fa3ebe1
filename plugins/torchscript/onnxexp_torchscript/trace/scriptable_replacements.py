"""Make functions that a trace replaces known to torch.jit.script.

A model may compile functions while it is traced. torchvision compiles the loops over its boxes in this way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

Replacement = tuple[Any, str, Any]


@contextlib.contextmanager
def compilable(replacements: Iterable[Replacement]) -> Iterator[list[Replacement]]:
    """Add the replacements to the compiler's table of operators inside the `with`.

    TorchScript identifies `math.sqrt` or `len` by the id of the function object. Yields the replacements as a list.
    """
    listed = list(replacements)
    table: dict[int, str] = torch.jit._builtins._get_builtin_table()  # type: ignore[no-untyped-call]
    added = {}
    for owner, name, function in listed:
        operator = table.get(id(getattr(owner, name, None)))
        if operator is not None and id(function) not in table:
            added[id(function)] = operator
    table.update(added)
    try:
        yield listed
    finally:
        for key in added:
            del table[key]
