"""Capture operators whose size is computed from the inputs' sizes.

torch.export converts such a size to the example's, because the operator's schema has an int. During a capture these calls are
composed of operators with symbolic sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn import functional

from onnxexp import CaptureError
from onnxexp_aten.capture.contiguous_copies import contiguous
from onnxexp_aten.capture.triangle_indices import triangle_indices


def _linspace(original: Callable[..., torch.Tensor], start: Any, end: Any, steps: Any, **options: Any) -> torch.Tensor:
    """Compute linspace from the nearer end, as torch does."""
    dtype = options.get("dtype") or torch.get_default_dtype()
    if not _is_computed(steps, start, end, dtype):
        return original(start, end, steps, **options)
    start, end = (bound if dtype.is_floating_point else int(bound) for bound in (start, end))
    places = torch.arange(steps, dtype=torch.float64, device=options.get("device"))
    step = (end - start) / _at_least_one(steps - 1)
    return torch.where(places < (steps + 1) // 2, start + step * places, end - step * (steps - 1 - places)).to(dtype)


def _logspace(
    original: Callable[..., torch.Tensor], start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any
) -> torch.Tensor:
    dtype = options.get("dtype") or torch.get_default_dtype()
    if not (_is_computed(steps, start, end, dtype) and dtype.is_floating_point):
        return original(start, end, steps, base, **options)
    exponents = _linspace(original, start, end, steps, **{**options, "dtype": torch.float64})
    return torch.pow(base, exponents).to(dtype)


def _is_computed(steps: Any, start: Any, end: Any, dtype: torch.dtype) -> bool:
    """Return whether the steps are symbolic and both ends are real numbers."""
    real = all(isinstance(bound, (int, float, torch.SymInt, torch.SymFloat)) for bound in (start, end))
    return isinstance(steps, torch.SymInt) and real and not dtype.is_complex


def _at_least_one(size: Any) -> Any:
    return torch.sym_max(size, 1)  # type: ignore[no-untyped-call]


def _adaptive_avg_pool1d(original: Callable[..., torch.Tensor], input: torch.Tensor, output_size: Any) -> torch.Tensor:
    """Call adaptive_avg_pool2d, whose sizes may be symbolic."""
    size: Any = output_size[0] if isinstance(output_size, (tuple, list)) else output_size
    if isinstance(size, int):
        return original(input, output_size)
    return functional.adaptive_avg_pool2d(input.unsqueeze(-2), (1, size)).squeeze(-2)


def _adaptive_max_pool(
    rank: int, original: Callable[..., Any], input: torch.Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Call our operator, whose sizes may be symbolic."""
    given = output_size if isinstance(output_size, (tuple, list)) else [output_size] * rank
    if return_indices or not any(isinstance(size, torch.SymInt) for size in given):
        return original(input, output_size, return_indices)
    sizes = [before if size is None else size for size, before in zip(given, input.shape[-rank:], strict=True)]
    return getattr(torch.ops.onnxexp_shapes, f"adaptive_max_pool{rank}d")(input, sizes)[0]  # by the rank


_POOLS_WHOLE = {"padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
"""The options of a pool that reduces the window alone; torch's Python functions pass all of them to a mode."""


def _pool_whole(
    reduce: Callable[..., torch.Tensor],
    rank: int,
    original: Callable[..., Any],
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    *rest: Any,
    **options: Any,
) -> Any:
    """Reduce the axes that one window covers: ``max_pool1d(x, x.shape[-1])``."""
    window = [*kernel_size] if isinstance(kernel_size, (tuple, list)) else [kernel_size] * rank
    pairs = zip(window, input.shape[-rank:], strict=False)
    symbolic = any(isinstance(size, torch.SymInt) for size in window)
    further = rest or any(_POOLS_WHOLE.get(name, name) != option for name, option in options.items())
    if further or not symbolic or not all(statically_known_true(size == whole) for size, whole in pairs):
        return original(input, kernel_size, stride, *rest, **options)
    return reduce(input, [*range(-rank, 0)], keepdim=True)


def _vander(original: Callable[..., torch.Tensor], x: torch.Tensor, N: Any = None, increasing: bool = False) -> torch.Tensor:
    """Call linalg.vander, whose sizes may be symbolic."""
    if x.dim() != 1 or isinstance(x.shape[0], int):
        return original(x, N, increasing)
    columns = x.shape[0] if N is None else N
    refused = x.dtype in (torch.bool, torch.float16, torch.bfloat16) or (isinstance(columns, int) and columns == 1)
    if refused and not (isinstance(columns, int) and columns < 1):  # by linalg.vander; vander takes them
        powers = torch.cat([x.new_ones((x.shape[0], 1)), x[:, None].expand(-1, columns - 1)], 1).cumprod(1)
    else:
        powers = torch.linalg.vander(x, N=columns)
    return powers if increasing else powers.flip(-1)


def _multi_dot(original: Callable[..., torch.Tensor], tensors: Any, **options: Any) -> torch.Tensor:
    """Multiply from left to right; torch chooses an order by the example's sizes."""
    if options or all(isinstance(size, int) for tensor in tensors for size in tensor.shape):
        return original(tensors, **options)
    return functools.reduce(torch.matmul, tensors)


def _fill_diagonal(
    original: Callable[..., torch.Tensor], self: torch.Tensor, fill_value: Any, wrap: bool = False
) -> torch.Tensor:
    """Fill the diagonal through its view, and one that wraps through a mask."""
    sizes: list[Any] = [*self.shape]
    if wrap and self.dim() == 2:  # after the last column, the diagonal goes on in the next row but one
        if not is_contiguous_or_false(self):  # torch counts the wrapped part in memory, gaps between rows included
            raise CaptureError(
                "fill_diagonal_ with wrap=True writes to a tensor that is not contiguous; "
                "to fix this, fill a copy, x.contiguous()"
            )
        rows, columns = (torch.arange(size, device=self.device) for size in sizes)
        return self.masked_fill_((rows % (sizes[1] + 1))[:, None] == columns, fill_value)
    if self.dim() < 2 or all(isinstance(size, int) for size in sizes):
        return original(self, fill_value, wrap)
    for size in sizes[1:] if self.dim() > 2 else ():
        torch._check(sizes[0] == size)  # type: ignore[no-untyped-call]
    diagonal = self
    for _ in sizes[1:]:
        diagonal = diagonal.diagonal(0, 0, -1)
    diagonal.fill_(fill_value)
    return self


COMPUTED_SIZES: list[tuple[Any, str, Callable[..., Any]]] = [
    (torch, "linspace", _linspace),
    (torch, "logspace", _logspace),
    (torch, "vander", _vander),
    (torch.linalg, "multi_dot", _multi_dot),
    *((torch, name, functools.partial(triangle_indices, name)) for name in ("tril_indices", "triu_indices")),
    *(
        (functional, f"{name}_pool{rank}d", functools.partial(_pool_whole, reduce, rank))
        for name, reduce in (("max", torch.amax), ("avg", torch.mean))
        for rank in (1, 2, 3)
    ),
    (torch, "adaptive_avg_pool1d", _adaptive_avg_pool1d),
    (functional, "adaptive_avg_pool1d", _adaptive_avg_pool1d),
    *((functional, f"adaptive_max_pool{rank}d", functools.partial(_adaptive_max_pool, rank)) for rank in (1, 2, 3)),
    (torch.Tensor, "contiguous", contiguous),
    (torch.Tensor, "fill_diagonal_", _fill_diagonal),
]
"""The replacement of each function of torch, as (owner, attribute, replacement)."""
