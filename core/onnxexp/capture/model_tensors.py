"""The modules, parameters and buffers of a model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

__all__ = ["ModelTensors", "call_unharmed", "restored_buffers"]


@dataclasses.dataclass(frozen=True, slots=True)
class ModelTensors:
    """A model with its modules by path and its tensors by name, no duplicates."""

    model: torch.nn.Module
    modules: dict[str, torch.nn.Module]
    state: dict[str, torch.Tensor]

    @classmethod
    def of(cls, model: torch.nn.Module) -> ModelTensors:
        """Collect the model's present modules and tensors."""
        return cls(model, dict(model.named_modules()), {**dict(model.named_parameters()), **dict(model.named_buffers())})


@contextlib.contextmanager
def restored_buffers(model: torch.nn.Module) -> Iterator[None]:
    """Undo the writes of a run of the model into its buffers."""
    before = {name: tensor.detach().clone() for name, tensor in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in model.named_buffers():
                if name in before and before[name].shape == tensor.shape:
                    tensor.copy_(before[name])


def call_unharmed(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a module, then put back the buffers that its forward wrote to or replaced."""
    if not isinstance(module, torch.jit.ScriptModule):
        buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        return torch.func.functional_call(module, buffers, tuple(args), dict(kwargs))
    with restored_buffers(module):
        return module(*args, **kwargs)
