"""Trace ``torch.cond``: both branches, and a choice between their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree


def traced_cond() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) of `torch.cond`.

    The tracer refuses torch's own function, which compiles its branches. The branches are functional, and return tensors of one
    type.
    """
    yield torch, "cond", _cond(torch.cond)


def _cond(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
        if not torch._C._is_tracing():
            return original(pred, true_fn, false_fn, operands)
        if isinstance(pred, bool):
            return true_fn(*operands) if pred else false_fn(*operands)
        return pytree.tree_map(functools.partial(_chosen, pred.reshape(())), true_fn(*operands), false_fn(*operands))

    return cond


def _chosen(pred: torch.Tensor, one: Any, other: Any) -> Any:
    return torch.where(pred, one, other) if isinstance(one, torch.Tensor) else one
