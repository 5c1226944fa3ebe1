"""A model with another forward, for an export."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch


class AdaptedModule(torch.nn.Module):
    """A module with the parts of a model, and with a forward of its own.

    Submodules, parameters and buffers are the model's, so that weights and nodes keep their names.
    """

    def __init__(self, model: torch.nn.Module, forward: Callable[..., Any], parameters: Sequence[str]) -> None:
        """Take `forward`, and the names of its keyword arguments."""
        super().__init__()
        self.training = model.training
        own = vars(self)
        own.update({name: vars(model)[name] for name in ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set")})

        def adapted(*args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        vars(adapted)["__signature__"] = inspect.Signature([inspect.Parameter(name, keyword) for name in parameters])
        own["forward"] = adapted
