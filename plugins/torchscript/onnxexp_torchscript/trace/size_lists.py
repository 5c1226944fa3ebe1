"""Sizes as windows, strides and shifts: a number in place of a list.

For ``torch.roll(x, n // 4, 1)`` the tracer records the example's ``n // 4`` and does not warn; lists of sizes it records as they
are, except those of a convolution.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from onnxexp.torch_ops import schemas

_CONVOLUTIONS = tuple(f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3))
_POOLS = tuple(
    f"{name}{rank}d{suffix}"
    for name in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool")
    for rank in (1, 2, 3)
    for suffix in ("", "_with_indices")
)
_OWNERS: tuple[Any, ...] = (torch, torch.Tensor, torch._C._nn, functional)
_BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType)


@functools.cache
def size_lists() -> list[tuple[Any, str, Callable[..., Any]]]:
    """List replacements (owner, name, function) that pass a traced number as a list."""
    rows: list[tuple[Any, str, Callable[..., Any]]] = []
    for name in ("roll", *_POOLS, *_CONVOLUTIONS):
        arguments: Any = next((schema.arguments for schema in schemas(f"aten::{name}")), ())
        counts = {key: arg.N for index, arg in enumerate(arguments) if arg.N for key in (index, arg.name)}
        warns = name in _CONVOLUTIONS
        instead = functools.partial(_with_warning, name, counts) if warns else functools.partial(_with_lists, counts)
        # Python functions call these
        rows += [(owner, name, instead) for owner in _OWNERS if isinstance(getattr(owner, name, None), _BUILTIN)]
    return rows


def _with_lists(counts: dict[Any, int], original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Make a traced number a list, where `counts` has the length for its argument."""
    args = tuple([_listed(arg, counts.get(index)) for index, arg in enumerate(args)])
    return original(*args, **{key: _listed(arg, counts.get(key)) for key, arg in options.items()})


def _with_warning(name: str, counts: dict[Any, int], original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Warn of a traced number, alone or in a list: the trace has the example's."""
    given = (arg for key, arg in (*enumerate(args), *options.items()) if key in counts)
    if any(_is_number(one) for arg in given for one in (arg if isinstance(arg, (list, tuple)) else [arg])):
        warnings.warn(f"{name} takes a size as a constant number", torch.jit._trace.TracerWarning, stacklevel=2)
    return original(*args, **options)


def _listed(arg: Any, count: int | None) -> Any:
    """Return a traced number as a list of this length, and anything else as it is."""
    return [arg] * count if count is not None and _is_number(arg) else arg


def _is_number(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and not arg.dim()
