"""Arguments of torch's newer exporter that onnxexp.export does not have."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import torch

from onnxexp import OnnxExporterError, warn
from onnxexp.commands import OutputFile
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from onnxexp_torch_onnx.onnx_program import ONNXProgram


@dataclasses.dataclass(frozen=True)
class NewerArguments:
    """The arguments, with torch's defaults.

    Attributes:
        optimize: False keeps computations on constants.
        report, dump_exported_program: Write a page, or the captured program, into `artifacts_dir`.
        profile: Print the seconds of each stage.
        dynamo, fallback: Without effect: the capture is torch.export's, and a trace where that fails.
    """

    optimize: bool = True
    report: bool = False
    profile: bool = False
    dump_exported_program: bool = False
    artifacts_dir: str | os.PathLike[str] = "."
    dynamo: bool | None = None
    fallback: bool = False

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> NewerArguments:
        """Remove the arguments from others, and return them. None is the default."""
        given = {field.name: arguments.pop(field.name, None) for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})

    def write(self, program: ONNXProgram) -> None:
        """Write the page and the captured program. A warning names what fails."""
        base = Path(self.artifacts_dir) / time.strftime("onnx_export_%Y-%m-%d_%H-%M-%S")
        if self.report:
            try:
                base.parent.mkdir(parents=True, exist_ok=True)
                program.report(base.with_suffix(".html"))
            except (OnnxExporterError, OSError) as error:
                warn(f"report=True writes no page: {error}", OnnxExporterWarning)
        if self.dump_exported_program:
            try:
                base.parent.mkdir(parents=True, exist_ok=True)
                with OutputFile(base.with_suffix(".pt2")).open() as file:
                    torch.export.save(program.exported_program, file)
            except Exception as error:  # noqa: BLE001 - torch.export passes on any exception of the model
                warn(f"dump_exported_program=True writes no file: {error}", OnnxExporterWarning)
