"""Capture ``module.to(dtype)`` in a forward where it changes nothing.

torch assigns to `.data` of each parameter, also where the dtype and the device stay, and a capture refuses that.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp import is_in_onnx_export


def keep_modules() -> tuple[Any, str, Callable[..., Any]]:
    """Return the replacement (owner, name, function) of `torch.nn.Module.to`."""
    return torch.nn.Module, "to", _unless_unchanged(torch.nn.Module.to)


@functools.lru_cache(maxsize=128)
def _unless_unchanged(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to(self: torch.nn.Module, *args: Any, **options: Any) -> Any:
        return self if is_in_onnx_export() and not _changes(self, *args, **options) else original(self, *args, **options)

    return to


def _changes(module: torch.nn.Module, *args: Any, **options: Any) -> bool:
    device, dtype, *_ = torch._C._nn._parse_to(*args, **options)
    return any(
        device not in (None, tensor.device)
        or ((tensor.is_floating_point() or tensor.is_complex()) and dtype not in (None, tensor.dtype))
        for tensor in itertools.chain(module.parameters(), module.buffers())
    )
