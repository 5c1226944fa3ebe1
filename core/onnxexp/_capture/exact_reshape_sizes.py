"""Keep the sizes that a reshape requests, on fake tensors with symbolic sizes.

torch derives them axis by axis from divisibility at the example's sizes: ``x.reshape(-1, 8)`` of ``[n, 4]`` becomes
``[n//2, 4*(n//(n//2))]``, and ``x.reshape(2, -1)`` becomes ``[2, 4*(n//2)]``, which is wrong for an odd n.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import _refs
from torch._prims_common import is_contiguous_or_false, make_contiguous_strides_for
from torch._subclasses.fake_tensor import FakeTensorMode

from onnxexp._capture.torch_state import is_exporting, replace_attributes, silence_torch_loggers, silence_warnings


@contextlib.contextmanager
def exact_reshape_sizes() -> Iterator[None]:
    """Give reshaped fake tensors exactly the requested sizes inside the `with`.

    Other threads are not affected.
    """
    original: Callable[..., torch.Tensor] = _refs._reshape_view_helper_core_alg

    def reshaped(a: torch.Tensor, shape: tuple[Any, ...], allow_copy: bool) -> torch.Tensor:
        if not is_exporting() or all(isinstance(size, int) for size in (*a.shape, *shape)):
            return original(a, shape, allow_copy)
        if is_contiguous_or_false(a):
            return torch.as_strided(a, shape, make_contiguous_strides_for(shape))
        result = original(a, shape, allow_copy)
        return torch.as_strided(result, shape, result.stride())

    with replace_attributes(((_refs, "_reshape_view_helper_core_alg", reshaped),)):
        yield


@contextlib.contextmanager
def fake_kernels(mode: FakeTensorMode) -> Iterator[None]:
    """Run torch's kernels on fake tensors inside the context.

    Reshapes get exactly the requested sizes. Warnings and messages of kernels, which describe fake tensors, do not appear.
    """
    silence_torch_loggers()
    with mode, exact_reshape_sizes(), silence_warnings():
        yield
