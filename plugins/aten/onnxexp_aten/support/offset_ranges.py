"""Ranges of integers with an offset, such as the positions of new tokens."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor

__all__ = ["is_range", "start_of_range"]


def start_of_range(op: Builder, x: Tensor, count: Any) -> Tensor | None:
    """Match ``arange(count) + start``; return `start`, int64[] or int64[1], else None."""
    made = op.producer(x) if x.rank == 1 else None
    for steps, start in (made.inputs, made.inputs[::-1]) if made is not None and made.operator == "Add" else ():
        if steps is not None and start is not None and is_range(op, steps, count) and start.shape in ((), (1,)):
            return start
    return None


def is_range(op: Builder, x: Tensor, count: Any) -> bool:
    """Return whether a tensor is a range ``arange(count)``; `count` may be a symbol."""
    if x.const is not None:
        return x.const.numel() == count and torch.equal(x.const.flatten(), torch.arange(x.const.numel()))
    made = op.producer(x)
    if made is None or made.operator != "Range" or x.shape != (count,):
        return False
    start, _, step = (None if each is None or each.const is None else each.const.item() for each in made.inputs)
    return (start, step) == (0, 1)
