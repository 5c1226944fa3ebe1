"""`export`: a model of transformers for a task, as one or several graphs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import onnxexp
from onnxexp import OptionError
from onnxexp_transformers.folder import write_folder
from onnxexp_transformers.loading import Loaded, load
from onnxexp_transformers.tasks import task_of

__all__ = ["ExportedModel", "export"]


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedModel:
    """The graphs of an exported model.

    Attributes:
        task: The name of the task.
        programs: The program of each part, by the name of its file without ``.onnx``.
        loaded: The original model, and the folder that it comes from.
        options: The options of the task, such as ``cache``.
    """

    task: str
    programs: Mapping[str, onnxexp.ONNXProgram]
    loaded: Loaded
    options: Mapping[str, Any]

    @property
    def program(self) -> onnxexp.ONNXProgram:
        """The only program. Raises OptionError where the model has several parts."""
        if len(self.programs) != 1:
            raise OptionError(f"the model has several parts: choose one of programs: {', '.join(self.programs)}")
        return next(iter(self.programs.values()))

    def save(self, folder: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write the graphs, the configuration, the tokenizer's files and a model card.

        The folder appears, or replaces an earlier export, when it is complete.

        Args:
            folder: The folder to write.
            command: The command for the model card; None describes the call in Python.

        Raises:
            OptionError: The folder exists, and is no earlier export.
            SerializeError: The files could not be written. An earlier folder is unharmed.
        """
        return write_folder(Path(folder), self.programs, self.task, self.options, self.loaded, command)


def export(
    model: Any,
    task: str,
    output: str | os.PathLike[str] | None = None,
    *,
    dtype: torch.dtype | None = None,
    trust_remote_code: bool = False,
    task_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> ExportedModel:
    """Export a model of transformers for a task.

    Args:
        model: A model, a configuration (its weights are random), the path of a checkpoint folder, or of a ``config.json``.
        task: The name of the task, such as ``text-generation``; `onnxexp_transformers.tasks.TASKS` lists them.
        output: A folder to write; None only returns the programs.
        dtype: The dtype of the weights to load; None keeps the checkpoint's.
        trust_remote_code: Whether Python files of the checkpoint may run.
        task_options: Options of the task: ``{"cache": "static", "max_length": 512}``.
        options: Options of `onnxexp.export`: `opset_version`, `target`, `plugins`, `verify`, ….

    Raises:
        OptionError: There is no such task, the model does not fit it, or cannot be loaded.
        OnnxExporterError: What `onnxexp.export` raises.
    """
    chosen = task_of(task)
    loaded = load(model, chosen, trust_remote_code=trust_remote_code, dtype=dtype)
    given = dict(task_options or {})
    programs = {
        part.name: onnxexp.export(part.module, kwargs=dict(part.inputs), dynamic_shapes=dict(part.dynamic_shapes), **options)
        for part in chosen.parts(loaded.model, **given)
    }
    exported = ExportedModel(task, programs, loaded, given)
    if output is not None:
        exported.save(output)
    return exported
