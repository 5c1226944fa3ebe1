"""The tasks: the class of model that each needs, and the parts that it exports.

A task is a module with `AUTO_CLASS`, the name of transformers' class that loads its models, and `parts`. `Part` is one graph: a
file of the exported folder.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp.suggest import nearest

__all__ = ["TASKS", "Part", "Task", "task_of"]

TASKS = {"text-generation": "text_generation"}
"""The module of each task, in this package."""


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A graph to export: ``model.onnx`` is the part "model".

    Attributes:
        name: The name of the file, without ``.onnx``.
        module: The module to export; its forward takes `inputs` by name.
        inputs: The example, by the names of the parameters.
        dynamic_shapes: The dynamic axes, in the form of `onnxexp.export`.
    """

    name: str
    module: torch.nn.Module
    inputs: Mapping[str, Any]
    dynamic_shapes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task: its name, the class that loads its models, and its `parts`.

    `parts(model, **options)` raises OptionError for a model that it does not fit, and for options that it does not have.
    """

    name: str
    auto_class: str
    parts: Callable[..., Sequence[Part]]


def task_of(name: str) -> Task:
    """Return a task. Raises OptionError for one that does not exist."""
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}{nearest(name, TASKS)}. There are: {', '.join(sorted(TASKS))}.")
    module = vars(importlib.import_module(f"{__name__}.{TASKS[name]}"))
    return Task(name, module["AUTO_CLASS"], module["parts"])
