"""Record the strides of a contiguous tensor as products of its sizes.

The tracer has the example's numbers, so that ``x.as_strided(size, x.stride())`` would be right at the example's sizes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp_torchscript.trace.made_constants import no_trace


def traced_strides() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) of `torch.Tensor.stride`."""
    yield torch.Tensor, "stride", _stride


def _stride(original: Callable[..., Any], self: torch.Tensor, dim: Any = None) -> Any:
    found = original(self) if dim is None else original(self, dim)
    if not torch._C._is_tracing() or not _is_contiguous(self, original(self)) or isinstance(dim, str):
        return found
    products = _products(self)
    return tuple(products) if dim is None else products[dim]


def _is_contiguous(x: torch.Tensor, strides: tuple[int, ...]) -> bool:
    """Return whether the strides are those of a new tensor; a size of 1 allows others."""
    with no_trace():
        return x.layout is torch.strided and strides == torch.empty(x.shape, device="meta").stride()


def _products(x: torch.Tensor) -> list[Any]:
    products: list[Any] = [1]
    for axis in range(x.dim() - 1, 0, -1):
        products.insert(0, x.size(axis) * products[0])
    return products[: x.dim()]
