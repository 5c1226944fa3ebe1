"""Tensors that a forward makes of sizes, or of Python's or NumPy's data."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

_MAKERS: tuple[tuple[Any, str], ...] = ((torch, "tensor"), (torch, "as_tensor"), (torch, "asarray"), (torch.Tensor, "new_tensor"))

_tracer: Any = torch._C  # has more than torch's stubs
_ALIASES = ("aten::to", "aten::detach", "aten::detach_")


def made_constants() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of functions that make tensors.

    The tracer's constant is the result itself, so that a write of the forward would change the constant too. The replacements
    give the graph a copy.
    """
    for owner, name in _MAKERS:
        yield owner, name, functools.partial(_make, 1 if owner is torch.Tensor else 0)


def made_of_arrays() -> tuple[Any, str, Callable[..., Any]]:
    """Return an attribute (owner, name, function) for `torch.from_numpy`.

    No mode for functions sees its calls.
    """
    return torch, "from_numpy", functools.partial(_make, 0, torch.from_numpy)


def _make(position: int, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function whose argument at `position` is the data."""
    data = next(iter(args[position:]), None)
    if _tracer._is_tracing() and isinstance(data, (list, tuple)) and _has_tensors(data):
        with no_trace():
            made = original(*args, **options)
        return _stacked(data, made.dtype, made.device)
    made = original(*args, **options)
    if _tracer._is_tracing() and not any(isinstance(arg, torch.Tensor) for arg in (*args[position:], *options.values())):
        _copy_constant(made)
    return made


def _copy_constant(made: torch.Tensor) -> None:
    """Give the constant that stands for a tensor a copy of its contents."""
    node = _tracer._get_value_trace(made).node()
    while node.kind() in _ALIASES:
        node = node.inputsAt(0).node()
    if node.kind() == "prim::Constant" and node.hasAttribute("value"):
        with no_trace():
            node.t_("value", made.detach().clone())


def _has_tensors(data: Any) -> bool:
    return any(_has_tensors(part) if isinstance(part, (list, tuple)) else isinstance(part, torch.Tensor) for part in data)


def _stacked(data: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Stack the parts of a list, as ``torch.tensor([x.shape[0], 2])`` has them."""
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(part, dtype, device) for part in data])
    return torch.as_tensor(data, dtype=dtype, device=device)


@contextlib.contextmanager
def no_trace() -> Iterator[None]:
    """Leave the trace of this thread for a while."""
    state = _tracer._get_tracing_state()
    _tracer._set_tracing_state(None)
    try:
        yield
    finally:
        _tracer._set_tracing_state(state)
