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
        """Those that a model has now: torch's own ways through them take the modules one by one for each kind."""
        modules = dict(model.named_modules())
        parameters: dict[int, tuple[str, torch.Tensor]] = {}
        buffers: dict[int, tuple[str, torch.Tensor]] = {}
        for path, module in modules.items():
            for found, held in ((parameters, module._parameters), (buffers, module._buffers)):
                for name, tensor in held.items():
                    if tensor is not None:
                        found.setdefault(id(tensor), (f"{path}.{name}" if path else name, tensor))
        state = {**parameters, **buffers, **parameters}  # the first of its names counts
        return cls(model, modules, dict(buffers.values()), dict(state.values()))
