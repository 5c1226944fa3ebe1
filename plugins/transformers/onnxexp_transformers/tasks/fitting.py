"""The tasks that fit a model, by transformers' own lists of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from onnxexp import OptionError
from onnxexp_transformers.tasks import TASKS, Task


def model_classes(auto_class: str, config: type[PreTrainedConfig]) -> Sequence[type[PreTrainedModel]]:
    """Return the classes of models that an auto class makes for a configuration."""
    found = getattr(transformers, auto_class)._model_mapping.get(config, ())  # its public methods import every architecture
    return found if isinstance(found, (list, tuple)) else [found]


def loader_of(config: PreTrainedConfig, task: Task) -> Any:
    """Return transformers' class that loads a model of this configuration for a task.

    Raises OptionError, with the tasks that fit, if there is no such class.
    """
    own = getattr(config, "auto_map", None) or {}  # only configurations with code of their own have one
    for name in task.auto_classes:
        if name in own or model_classes(name, type(config)):
            return getattr(transformers, name)
    raise OptionError(_misfit(type(config).__name__, task, [name for name in TASKS if _fits(type(config), name)]))


def check_fit(model: PreTrainedModel, task: Task) -> None:
    """Raise OptionError where the model's class belongs to other tasks.

    A class that transformers does not list may fit any task.
    """
    fitting = [name for name in TASKS if _fits(type(model.config), name, model)]
    if fitting and task.name not in fitting:
        raise OptionError(_misfit(type(model).__name__, task, fitting))


def _fits(config: type[PreTrainedConfig], task: str, model: PreTrainedModel | None = None) -> bool:
    classes = [each for name in TASKS[task][1] for each in model_classes(name, config)]
    return bool(classes) if model is None else isinstance(model, tuple(classes))


def _misfit(what: str, task: Task, fitting: Sequence[str]) -> str:
    fix = f"it fits {', '.join(fitting)}" if fitting else "it fits no task: export it with onnxexp.export and your own inputs"
    return f"{what} does not fit the task {task.name}, which needs a class of {' or '.join(task.auto_classes)}; {fix}"
