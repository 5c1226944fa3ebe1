"""Reshapes of fake tensors: the result has the sizes of the call.

torch's own finds them axis by axis, by what divides what at the example's sizes: there ``x.reshape(-1, 8)`` of ``[n, 4]`` is
``[n//2, 4*(n//(n//2))]`` (which no size of any tensor is), and ``x.reshape(2, -1)`` is ``[2, 4*(n//2)]`` (wrong where n is odd).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _refs
from torch._prims_common import is_contiguous_or_false, make_contiguous_strides_for

from onnxexp.capture.torch_state import is_exporting, replaced

__all__ = ["reshapes_as_called"]


@contextlib.contextmanager
def reshapes_as_called() -> Iterator[None]:
    """Give reshaped fake tensors the sizes of the call; other threads are not affected."""
    original: Callable[..., torch.Tensor] = _refs._reshape_view_helper_core_alg

    def reshaped(a: torch.Tensor, shape: tuple[Any, ...], allow_copy: bool) -> torch.Tensor:
        if not is_exporting() or all(isinstance(size, int) for size in (*a.shape, *shape)):
            return original(a, shape, allow_copy)
        if is_contiguous_or_false(a):
            return torch.as_strided(a, shape, make_contiguous_strides_for(shape))
        result = original(a, shape, allow_copy)
        return torch.as_strided(result, shape, result.stride())

    with replaced(((_refs, "_reshape_view_helper_core_alg", reshaped),)):
        yield
