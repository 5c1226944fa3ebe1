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
    buffers: dict[str, torch.Tensor]

    state: dict[str, torch.Tensor]
    """Parameters and buffers, each once."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> Parts:
        """The parts that a model has now."""
        buffers = dict(model.named_buffers())
        return cls(model, dict(model.named_modules()), buffers, {**dict(model.named_parameters()), **buffers})
