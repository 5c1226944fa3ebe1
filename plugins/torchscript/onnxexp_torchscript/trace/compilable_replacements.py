"""Let torch.jit.script compile functions while a model is traced.

torchvision compiles the loops over its boxes in this way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

Replacement = tuple[Any, str, Any]


@contextlib.contextmanager
def compilable(replacements: Iterable[Replacement]) -> Iterator[list[Replacement]]:
    """Give the compiler the operators of replaced functions inside the `with`.

    TorchScript identifies `torch.tensor` or `math.ceil` by the function object.
    """
    listed = list(replacements)
    table: dict[int, str] = torch.jit._builtins._get_builtin_table()  # type: ignore[no-untyped-call]
    added = {
        id(function): operator
        for owner, name, function in listed
        if (operator := table.get(id(getattr(owner, name, None)))) is not None and id(function) not in table
    }
    table.update(added)
    try:
        yield listed
    finally:
        for key in added:
            del table[key]
