"""Readers of arguments: ranks, axes and numbers, as torch takes them."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, Tensor

__all__ = ["axes_of", "axis_of", "expand_scalar", "none_if_default", "rank_of", "truncate_like_torch"]


def rank_of(op: Builder, x: Tensor) -> int:
    """The rank, where a symbolic cannot do without. Raises LoweringError where it is unknown."""
    rank = x.rank
    if rank is None:
        raise op.error(f"the rank of {x!r} must be known at export; cure: give it one rank in all branches and rounds")
    return rank


def axis_of(op: Builder, x: Tensor, dim: Any) -> int:
    """A dimension counted from the front; a 0-d tensor counts as 1-d, as in torch."""
    dim = int(op.static(dim, "dim"))
    return dim % max(rank_of(op, x), 1) if dim < 0 else dim


def axes_of(op: Builder, x: Tensor, dims: Any) -> list[int]:
    """Dimensions counted from the front, in order; None or none at all means every one."""
    if dims is None or dims == []:
        return list(range(rank_of(op, x)))
    return sorted(axis_of(op, x, dim) for dim in (dims if isinstance(dims, (list, tuple)) else [dims]))


def truncate_like_torch(value: Any, dtype: torch.dtype) -> Any:
    """A number as eager writes it into a tensor: of whole numbers' dtypes without what follows the point."""
    return int(value) if isinstance(value, float) and not dtype.is_floating_point and dtype != torch.bool else value


def expand_scalar(value: Any, dims: int) -> list[int]:
    """One number for every spatial dimension: torch takes a lone number, or a list of one, for all of them."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dims if len(values) == 1 else values


def none_if_default(values: list[int], default: int) -> list[int] | None:
    """None, which leaves an attribute out, where every value is the operator's default."""
    return None if values.count(default) == len(values) else values
