"""Tensors that a traced forward assigns to attributes of its modules."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp_torchscript.jit.jit_nodes import ATOMS

_REGISTERED = frozenset(["_parameters", "_buffers", "_modules"])
"""The attributes of a module with what torch registers. A trace may change these."""
_CONTAINERS = frozenset([OrderedDict, dict, list, set, tuple])
"""The types of most attributes but `ATOMS`; most are empty."""


@contextlib.contextmanager
def assigned_tensors(modules: Mapping[str, torch.nn.Module], names: set[str]) -> Iterator[None]:
    """Add to `names` the attributes, ``self.block.state[0]``, that get another tensor.

    `modules` are a model's by path, which may get others. Elements of dicts, lists and tuples are included. torch's
    `_detect_attribute_assignment` finds the same, and copies every attribute as a pytree for it: 2 % of a small traced export.
    """
    before = dict(_tensors(modules.items()))
    try:
        yield
    finally:
        names.update(name for name, tensor in _tensors(modules[""].named_modules()) if before.get(name) is not tensor)


def _tensors(modules: Iterable[tuple[str, torch.nn.Module]]) -> Iterator[tuple[str, torch.Tensor]]:
    for path, module in modules:
        prefix = f"self.{path}." if path else "self."
        for name, value in vars(module).items():
            kind = type(value)
            if kind in ATOMS or name in _REGISTERED or (kind in _CONTAINERS and not value):  # most attributes
                continue
            yield from _within(prefix + name, value)


def _within(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, each in items:
        if type(each) not in ATOMS:
            yield from _within(f"{name}[{key!r}]", each)


def with_assigned_data(result: Any, data: Any, modules: Iterable[torch.nn.Module]) -> Any:
    """Return a forward's result with what it has assigned to ``.data``.

    Raises CaptureError where that is of a scripted module in `modules`, whose calls are not redirected.
    """
    scripted = [module for module in modules if data and isinstance(module, torch.jit.ScriptModule)]
    if any(parameter in data for module in scripted for parameter in module.parameters()):
        raise CaptureError(
            "an assignment to .data of a scripted part's parameter cannot be captured; to fix this, leave that part "
            "unscripted, or script the whole model"
        )
    return data.replaced(result)
