"""What the symbolics of several modules share: the table, torch's type promotion, axes."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from onnxexp import Builder, SymbolicTable, Tensor

__all__ = ["aten", "axes_of", "axis_of", "dtype_of", "promote", "promoted_dtype", "to_float", "rank_of", "spread", "unless"]

aten = SymbolicTable("aten")
"""The symbolics of torch's own operators; the modules of this package fill it."""


def promoted_dtype(*args: Any, floating: bool = False) -> torch.dtype:
    """The dtype in which torch computes with these Tensors and Python numbers; `floating`: ints become float32."""
    keys = tuple(_key(arg) for arg in args if arg is not None)
    return _promoted(keys, floating)


def _key(arg: Any) -> tuple[Any, bool]:
    """(dtype, is 0-d) of a tensor, (Python type, True) of a number, dynamic ones too."""
    if isinstance(arg, Tensor):
        return (arg.scalar, True) if arg.scalar else (arg.dtype, arg.rank == 0)
    return type(arg), True


@functools.lru_cache(maxsize=None)
def _promoted(keys: tuple[tuple[Any, bool], ...], floating: bool) -> torch.dtype:
    samples = [
        kind(1) if isinstance(kind, type) else torch.empty(() if flat else (1,), dtype=kind, device="meta") for kind, flat in keys
    ]
    kind = KIND.INT_TO_FLOAT if floating else KIND.DEFAULT
    _, result = elementwise_dtypes(*samples, type_promotion_kind=kind)
    return result


def promote(op: Builder, *args: Any, dtype: torch.dtype | None = None, floating: bool = False) -> list[Tensor]:
    """The arguments as Tensors of the dtype in which torch computes with them (or of `dtype`)."""
    dtype = dtype or promoted_dtype(*args, floating=floating)
    return [op.cast(arg, dtype) for arg in args]


def to_float(op: Builder, x: Tensor) -> Tensor:
    """Ints and bools as float32, what floats as it is."""
    return x if x.dtype.is_floating_point else op.cast(x, torch.float32)


def rank_of(op: Builder, x: Tensor) -> int:
    """The rank, where a symbolic cannot do without. Raises LoweringError where it is unknown."""
    if x.rank is None:
        raise op.error(f"the rank of {x!r} must be known at export; cure: give it one rank in all branches and rounds")
    return x.rank


def axis_of(op: Builder, x: Tensor, dim: Any) -> int:
    """A dimension counted from the front; a 0-d tensor counts as 1-d, as in torch."""
    dim = int(op.static(dim, "dim"))
    return dim % max(rank_of(op, x), 1) if dim < 0 else dim


def axes_of(op: Builder, x: Tensor, dims: Any) -> list[int]:
    """Dimensions counted from the front, in order; None or none at all means every one."""
    if dims is None or dims == []:
        return list(range(rank_of(op, x)))
    return sorted(axis_of(op, x, dim) for dim in (dims if isinstance(dims, (list, tuple)) else [dims]))


def dtype_of(dtype: torch.dtype | None, default: torch.dtype) -> torch.dtype:
    """An optional dtype argument."""
    return default if dtype is None else dtype


def spread(value: Any, dims: int) -> list[int]:
    """One number for every spatial dimension: torch takes a lone number, or a list of one, for all of them."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dims if len(values) == 1 else values


def unless(values: list[int], default: int) -> list[int] | None:
    """None, which leaves an attribute out, where every value is the operator's default."""
    return None if all(value == default for value in values) else values
