"""The branches in Python that a model takes on sizes while it is traced."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp.graph import SourceLocation
from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size
from onnxexp_torchscript.trace.tracer_warnings import calling_line


@dataclasses.dataclass(frozen=True)
class Branch:
    """A condition on sizes that the model tests.

    Attributes:
        condition: Its value in the trace.
        outcome: Whether it is true at the example's sizes.
        where: The user's line.
    """

    condition: Any
    outcome: bool
    where: SourceLocation


def recorded_branches(branches: list[Branch]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) that adds to `branches`."""

    def test(original: Callable[..., Any], self: torch.Tensor) -> bool:
        if not torch._C._is_tracing():
            return bool(original(self))
        where = SourceLocation.read(*calling_line())
        branches_on_size = is_size(self) and where.is_user_code and not where.only_raises_or_warns
        if not branches_on_size:
            return bool(original(self))
        with warnings.catch_warnings(record=True):
            outcome = bool(original(self))
        branches.append(Branch(torch._C._get_value_trace(self), outcome, where))  # type: ignore[attr-defined]
        return outcome

    yield torch.Tensor, "__bool__", test


def traced_cond() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) of `torch.cond`.

    The tracer refuses torch's own function, which compiles its branches. The branches are functional, and return tensors of one
    type.
    """
    yield torch, "cond", _cond(torch.cond)


@functools.lru_cache(maxsize=128)
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
