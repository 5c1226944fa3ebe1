"""The calls of PyTorch's operator database, with numbers and sizes at the borders.

Some of a call's floats become NaN, infinities, zeros of both signs and denormals, or the dtype's largest and smallest number; the
last is true of integers, too. Two more samples have 0-d and empty tensors. A call that eager refuses is no sample.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import torch

from . import samples as database
from .samples import Sample

PREFIX = "extremes of "
"""The beginning of the operators' names in this part."""

DTYPES = ("float32", "int64", "float16")

Change = Callable[[torch.Tensor], torch.Tensor]


def _sprinkled(*numbers: float) -> Change:
    """Put numbers into every second element of a tensor of floats, in turn."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        flat = tensor.clone().contiguous().view(-1)
        places = torch.arange(0, flat.numel(), 2)
        flat[places] = torch.tensor(numbers, dtype=flat.dtype)[torch.arange(places.numel()) % len(numbers)]
        return flat.view(tensor.shape)

    return change


def _limits(tensor: torch.Tensor) -> torch.Tensor:
    """Set the first number to the dtype's largest, and the last to its smallest.

    More such numbers would overflow in sums, whose order is free.
    """
    if tensor.dtype == torch.bool or tensor.is_complex():
        return tensor
    info = torch.finfo(tensor.dtype) if tensor.is_floating_point() else torch.iinfo(tensor.dtype)
    flat = tensor.clone().contiguous().view(-1)
    flat[:1], flat[1:][-1:] = info.max, info.min
    return flat.view(tensor.shape)


ROWS: Mapping[str, Change] = MappingProxyType(
    {
        "NaN": _sprinkled(math.nan),
        "infinities": _sprinkled(math.inf, -math.inf),
        "zeros and denormals": _sprinkled(-0.0, 0.0, 1e-40, -1e-40),
        "limits": _limits,
        "0-d": lambda tensor: tensor.reshape(-1)[0] if tensor.numel() else tensor,
        "empty": lambda tensor: tensor[:0] if tensor.dim() else tensor,
    }
)
"""The changes of a call's tensors; their order is that of the samples."""


def operators() -> dict[str, str]:
    """Return the operators' names in this part, with those of the database."""
    return {f"{PREFIX}{name}": name for name in database.operators()}


def dtypes_of(op: str) -> list[str]:
    """Return the tested dtypes that the operator supports."""
    return [name for name in database.dtypes_of(op.removeprefix(PREFIX)) if name in DTYPES]


def family_of(op: str) -> str:
    """Return an operator's family."""
    return database.family_of(op.removeprefix(PREFIX))


def samples(op: str, dtype: str, count: int) -> Iterator[Sample]:
    """Yield the database's first call with each of the changes."""
    for call in database.samples(op.removeprefix(PREFIX), dtype, 1):
        for index, change in enumerate(list(ROWS.values())[:count]):
            tensors = tuple(change(tensor) for tensor in call.tensors)
            if any(not _same(*pair) for pair in zip(tensors, call.tensors, strict=True)):
                yield dataclasses.replace(call, op=op, index=index, tensors=tensors)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
