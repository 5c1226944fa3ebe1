"""`Architecture`: a small configuration of a transformers model, and its task."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import onnxexp_transformers
from onnxexp_transformers.loading import load
from onnxexp_transformers.tasks import task_of

TEXT: tuple[Mapping[str, int], ...] = ({"batch": 3, "sequence": 17, "target": 9}, {"batch": 1, "sequence": 7, "target": 3})
"""Sizes that an export does not see; its own are 2, 12 and 5."""


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A row of the matrix.

    Attributes:
        name: The name of the architecture in transformers' documentation.
        task: The name of the task.
        config: A function that returns the configuration.
        sizes: Sizes for the comparison with eager; see `onnxexp_transformers.tasks.example_inputs.Sizes`.
        example: Sizes of the example.
        fixed: Labels of axes that the exported model must have as constants, such as "height", with the reason.
        fails: Why the export fails; None expects it to pass.
        quick: Whether the row belongs to the quick tier.
    """

    name: str
    task: str
    config: Callable[[], Any]
    sizes: Sequence[Mapping[str, int]] = TEXT
    example: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fails: str | None = None
    quick: bool = False

    @property
    def id(self) -> str:
        """A name of the row that is unique."""
        return f"{self.name}:{self.task}"

    def model(self) -> Any:
        """Make the model with random weights, none of them zero."""
        torch.manual_seed(0)
        return shaken(load(self.config(), task_of(self.task)).model)

    def export(self, model: Any, **options: Any) -> onnxexp_transformers.ExportedModel:
        """Export the model for the task."""
        return onnxexp_transformers.export(model, self.task, task_options=dict(self.example), **options)


def shaken(model: torch.nn.Module) -> Any:
    """Add noise to all weights and statistics, so that no initial value hides errors."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and "inv_freq" not in name:
                noise = torch.randn(tensor.shape, generator=generator) * 0.1
                tensor.add_(noise.abs() if name.endswith("running_var") else noise)
    return model


def architectures() -> list[Architecture]:
    """Return the rows of all modules ``*_configs.py`` of this package."""
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folder) if module.name.endswith("_configs"))
    return [row for name in names for row in importlib.import_module(f"{package}.{name}").ARCHITECTURES]
