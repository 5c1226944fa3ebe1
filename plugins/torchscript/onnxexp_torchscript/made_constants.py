"""Tensors that a forward makes of Python's or NumPy's data, and then writes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

__all__ = ["made_constants"]

_MAKERS: tuple[tuple[Any, str], ...] = (
    (torch, "tensor"),
    (torch, "as_tensor"),
    (torch, "asarray"),
    (torch, "from_numpy"),
    (torch.Tensor, "new_tensor"),
)

_tracer: Any = torch._C  # has more than torch's stubs
_ALIASES = ("aten::to", "aten::detach", "aten::detach_")


def made_constants() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of functions that make tensors.

    The tracer's constant is the result itself, so that what the forward writes into it would change the constant too. The
    replacements give the graph a copy.
    """
    for owner, name in _MAKERS:
        yield owner, name, _apart(getattr(owner, name), 1 if owner is torch.Tensor else 0)


def _apart(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    def make(*args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        if _tracer._is_tracing() and not any(isinstance(arg, torch.Tensor) for arg in (*args[position:], *options.values())):
            _separate(made)
        return made

    return make


def _separate(made: torch.Tensor) -> None:
    """Give the constant that stands for a tensor a copy of its contents."""
    node = _tracer._get_value_trace(made).node()
    while node.kind() in _ALIASES:
        node = node.inputsAt(0).node()
    if node.kind() == "prim::Constant" and node.hasAttribute("value"):
        state = _tracer._get_tracing_state()
        _tracer._set_tracing_state(None)
        try:
            node.t_("value", made.detach().clone())
        finally:
            _tracer._set_tracing_state(state)
