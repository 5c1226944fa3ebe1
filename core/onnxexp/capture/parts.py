"""The parts of a model, which a capture walks through once."""

from __future__ import annotations

import dataclasses

import torch

__all__ = ["Parts"]


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """A model, and by their paths its modules and what they hold, each once."""

    model: torch.nn.Module
    modules: dict[str, torch.nn.Module]
    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]

    state: dict[str, torch.Tensor]
    """Parameters and buffers, each once."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> Parts:
        """Those that a model has now."""
        parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
        buffers = dict(model.named_buffers())
        found: dict[int, tuple[str, torch.Tensor]] = {}
        for name, tensor in (*parameters.items(), *buffers.items()):
            found.setdefault(id(tensor), (name, tensor))
        return cls(model, dict(model.named_modules()), parameters, buffers, dict(found.values()))
