"""Tensors that a traced forward assigns to attributes of its modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_REGISTERED = frozenset(["_parameters", "_buffers", "_modules"])
"""The attributes of a module with what torch registers. A trace may change these."""


@contextlib.contextmanager
def assigned_tensors(model: torch.nn.Module, names: set[str]) -> Iterator[None]:
    """Add to `names` the attributes, ``self.block.state[0]``, that get another tensor.

    Elements of dicts, lists and tuples are included. torch's `_detect_attribute_assignment` finds the same, and copies every
    attribute as a pytree for it: 2 % of a small traced export.
    """
    before = dict(_tensors(model))
    try:
        yield
    finally:
        names.update(name for name, tensor in _tensors(model) if before.get(name) is not tensor)


def _tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, (torch.Tensor, dict, list, tuple)) and name not in _REGISTERED:
                yield from _within(f"self.{path}.{name}" if path else f"self.{name}", value)


def _within(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _within(f"{name}[{key!r}]", each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _within(f"{name}[{index}]", each)
