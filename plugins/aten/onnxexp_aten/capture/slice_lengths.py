"""Capture slices whose limits meet at some sizes with their exact length.

torch takes the end of a slice to follow its start, or not to, as in the example: ``x[4:-3]`` has ``n - 7`` rows at every size, or
none. Eager has ``max(0, n - 7)``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxexp_aten.capture.unbacked_sizes import replaced_kernel


def exact_slice_lengths() -> contextlib.AbstractContextManager[None]:
    """Give slices of fake tensors their length at every size, in this thread only."""
    return replaced_kernel(fake_impls.op_implementations_dict, torch.ops.aten.slice.Tensor, _slice)


def _slice(
    original: Callable[..., Any], mode: Any, func: Any, self: torch.Tensor, dim: int = 0,
    start: Any = None, end: Any = None, step: Any = 1,
) -> Any:  # fmt: skip
    """Infer a slice as torch does, but do not assume that its limits are ordered."""
    if self.dim() == 0 or not any(isinstance(number, torch.SymInt) for number in (self.shape[dim], start, end)):
        return original(mode, func, self, dim, start, end, step)
    size = self.shape[dim]
    whole = end is None or statically_known_true(end == sys.maxsize)
    first = 0 if start is None else _place(size, start)
    last = size if whole else _place(size, end)
    if first is None or last is None or statically_known_true(step <= 0):
        return original(mode, func, self, dim, start, end, step)
    if statically_known_true(last >= first):
        return original(mode, func, self, dim, first, None if whole else last, step)
    sizes, strides = list(self.shape), list(self.stride())
    sizes[dim] = (torch.sym_max(last - first, 0) + step - 1) // step  # type: ignore[no-untyped-call]
    strides[dim] = strides[dim] * step
    return self.as_strided(sizes, strides, self.storage_offset() + first * self.stride()[dim])


def _place(size: Any, limit: Any) -> Any:
    """Return a limit as a position on an axis, or None if it is unknown.

    A limit outside of the axis in the example may be inside at other sizes.
    """
    here, place = _example(size), _example(limit)
    if here is None or place is None:
        return fake_impls._compute_slice_index(size, limit)
    always = isinstance(size, torch.SymInt) and statically_known_true(limit >= size)  # not for a static 2: torch assumes n >= 2
    if place > here and not always and statically_known_true(limit >= 0):
        return torch.sym_min(limit, size)  # type: ignore[no-untyped-call]
    if place < -here and statically_known_true(limit < 0):
        return torch.sym_max(size + limit, 0)  # type: ignore[no-untyped-call]
    return fake_impls._compute_slice_index(size, limit)


def _example(number: Any) -> int | None:
    """Return a number in the example, or None if it depends on values."""
    if isinstance(number, torch.SymInt):
        return None if number.node.hint is None else int(number.node.hint)
    return int(number)
