"""Capture tril_indices and triu_indices with symbolic sizes as one node each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def triangle_indices(
    name: str, original: Callable[..., torch.Tensor], row: Any, col: Any, offset: Any = 0, **options: Any
) -> torch.Tensor:
    """Call our operator `name` for symbolic sizes, else torch's, which takes ints."""
    if all(isinstance(number, int) for number in (row, col, offset)):
        return original(row, col, offset, **options)
    _define_operators()
    made: torch.Tensor = getattr(torch.ops.onnxexp, name)(
        row, col, offset, dtype=options.get("dtype", torch.int64)
    )  # by its name
    return made


@functools.cache
def _define_operators() -> Any:
    """Define ``onnxexp::tril_indices`` and ``triu_indices``, once per process."""
    library: Any = torch.library.Library("onnxexp", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, count in (("tril_indices", _elements_below), ("triu_indices", _elements_above)):
        schema = str(getattr(torch.ops.aten, name).default._schema).removeprefix("aten::")  # by its name
        library.define(schema.replace("int row, int col, int offset", "SymInt row, SymInt col, SymInt offset"))
        torch.library.register_fake(f"onnxexp::{name}", functools.partial(_shape, count), lib=library)
    return library


def _shape(count: Callable[..., Any], row: Any, col: Any, offset: Any = 0, *, dtype: Any = torch.int64, **_: Any) -> torch.Tensor:
    return torch.empty((2, count(row, col, offset)), dtype=dtype)


def _elements_above(row: Any, col: Any, offset: Any) -> Any:
    """Count the elements on and above a diagonal."""
    return row * col - _elements_below(row, col, offset - 1)


def _elements_below(row: Any, col: Any, offset: Any) -> Any:
    """Count the elements on and below a diagonal."""
    return _sum_of_lengths(row + offset, col) - _sum_of_lengths(offset, col)


def _sum_of_lengths(last: Any, col: Any) -> Any:
    """Return the sum of min(length, col) for each length from 1 to `last`."""
    full = torch.sym_max(last - col, 0)  # type: ignore[no-untyped-call]
    growing = torch.sym_max(last, 0) - full  # type: ignore[no-untyped-call]
    return growing * (growing + 1) // 2 + full * col
