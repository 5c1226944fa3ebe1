"""The parts of an export for a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import onnxexp
from onnxexp import OptionError
from onnxexp_transformers.loading import Loaded


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedParts:
    """The programs of a model for a task, and their origin.

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
        """The only program.

        Raises OptionError if the model has several parts.
        """
        if len(self.programs) != 1:
            raise OptionError(f"the model has several parts: choose one of programs: {', '.join(self.programs)}")
        return next(iter(self.programs.values()))
