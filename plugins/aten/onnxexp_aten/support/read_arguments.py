"""Read ranks, axes and numbers from the arguments of operators, by torch's rules."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor


def rank_of(op: Builder, x: Tensor) -> int:
    """Return the rank of a tensor; raise LoweringError where it is unknown."""
    rank = x.rank
    if rank is None:
        raise op.error(f"the rank of {x!r} must be known at export; to fix this, give it one rank in all branches and rounds")
    return rank


def axis_of(op: Builder, x: Tensor, dim: Any) -> int:
    """Count a dimension from the front; a 0-d tensor counts as 1-d."""
    dim = int(op.static(dim, "dim"))
    return dim % max(rank_of(op, x), 1) if dim < 0 else dim


def axes_of(op: Builder, x: Tensor, dims: Any) -> list[int]:
    """Count dimensions from the front, sorted; None or empty means all."""
    if dims is None or dims == []:
        return list(range(rank_of(op, x)))
    return sorted(axis_of(op, x, dim) for dim in (dims if isinstance(dims, (list, tuple)) else [dims]))


def truncate_like_torch(value: Any, dtype: torch.dtype) -> Any:
    """Truncate a float that is written into an integer tensor, as eager does."""
    return int(value) if isinstance(value, float) and not dtype.is_floating_point and dtype != torch.bool else value


def expand_scalar(value: Any, dims: int) -> list[int]:
    """Repeat a single number, or a list of one, for every dimension."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dims if len(values) == 1 else values


def none_if_default(values: list[int], default: int) -> list[int] | None:
    """Return None, which omits an attribute, where every value is the default."""
    return None if values.count(default) == len(values) else values
