"""States in attributes of modules, as RecurrentGemma has them.

The states become inputs and outputs of an export.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch


@contextlib.contextmanager
def assigned_states(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Collect the tensors that a run assigns to attributes, and undo the assignments.

    The yielded dict is filled at the end. Its keys are ``module.path.attribute``.
    """
    before = _attributes(model)
    found: dict[str, torch.Tensor] = {}
    try:
        yield found
    finally:
        after = _attributes(model)
        changed = {name: value for name, value in after.items() if value is not before.get(name)}
        found.update({name: value for name, value in changed.items() if isinstance(value, torch.Tensor)})
        for name in changed:
            _assign(model, name, before.get(name))


@contextlib.contextmanager
def with_states(model: torch.nn.Module, states: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Assign states to a model's attributes inside the `with`.

    The yielded dict contains the states after the run.
    """
    before = _attributes(model)
    results: dict[str, torch.Tensor] = {}
    for name, state in states.items():
        _assign(model, name, state)
    try:
        yield results
    finally:
        after = _attributes(model)
        for name in states:
            value = after[name]
            if isinstance(value, torch.Tensor):
                results[name] = value
            _assign(model, name, before[name])


def _attributes(model: torch.nn.Module) -> dict[str, object]:
    """Return the modules' plain attributes that are tensors or None, by name."""
    return {
        f"{path}.{name}" if path else name: value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if value is None or (type(value) is not torch.nn.Parameter and isinstance(value, torch.Tensor))
    }


def _assign(model: torch.nn.Module, name: str, value: object) -> None:
    path, _, attribute = name.rpartition(".")
    vars(model.get_submodule(path))[attribute] = value
