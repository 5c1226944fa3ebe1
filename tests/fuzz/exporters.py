"""onnxexp and torch.onnx's two exporters behind one signature."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import torch

import onnxexp
import onnxexp_ort
from onnxexp._errors import OnnxExporterError

from .program import Program

_RIGHT_ONLY = re.compile(r"right only where (.+?)\. Other sizes", re.DOTALL)
_CONSTANTS = "Tracing fixes the branches that the example inputs took, and the Python numbers computed from them:"


@dataclasses.dataclass(frozen=True)
class Exported:
    """A model, and the warnings of its export."""

    model: onnx.ModelProto
    messages: Sequence[str] = ()
    call: Callable[..., Any] | None = None
    """The program object, which refuses inputs outside of its stated range."""

    def is_limited(self, sizes: Mapping[str, int], tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether the export has stated that the model is wrong at these sizes."""
        conditions = [part for message in self.messages for found in _RIGHT_ONLY.findall(message) for part in _conditions(found)]
        return any(not _holds(condition, sizes) for condition in conditions) or self._refuses(tensors)

    @property
    def fixes_numbers(self) -> bool:
        """Whether the export has stated that it fixes branches and Python numbers."""
        return any(_CONSTANTS in message for message in self.messages)

    def _refuses(self, tensors: Sequence[torch.Tensor]) -> bool:
        try:
            if self.call is not None:
                self.call(*tensors)
        except OnnxExporterError as error:
            return not str(error).startswith("ONNX Runtime")
        except Exception:  # noqa: BLE001 - any other exception is a failure of the run, not a refusal
            return False
        return False


def _conditions(text: str) -> list[str]:
    """Return the conditions of a warning without the places in the source."""
    return [part.rpartition("; ")[2] for part in re.split(r" \(File [^\n]*?\)(?=;|$)", text) if part.strip("; ")]


def _holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a condition on the sizes is true.

    A condition that depends on more than the sizes, such as ``eq(u0, 1)``, counts as False.
    """
    try:
        return bool(eval(condition, {"__builtins__": {}, "max": max, "min": min}, dict(sizes)))
    except (NameError, SyntaxError, ArithmeticError, TypeError):
        return False


def exported(exporter: str, program: Program, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> Exported:
    """Export a program; record the warnings, and hide the tools' own output."""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        found = EXPORTERS[exporter](program, module, tensors)
    return dataclasses.replace(found, messages=[str(each.message) for each in caught])


def _shapes(program: Program) -> dict[str, dict[int, str]] | None:
    return {each.name: dict(program.axes.get(each.name, {})) for each in program.inputs} if program.sizes else None


def _names(program: Program) -> list[str]:
    return [each.name for each in program.inputs]


def _onnxexp(program: Program, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> Exported:
    options: dict[str, Any] = {"opset_version": program.opset, "capture": program.frontend}
    if program.has_bfloat16:
        options["plugins"] = [onnxexp_ort.Bfloat16OnCpu(), ...]
    found = onnxexp.export(module, tensors, input_names=_names(program), dynamic_shapes=_shapes(program), **options)
    return Exported(found.model_proto, call=found)


def _dynamo(program: Program, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> Exported:
    options: dict[str, Any] = {"opset_version": program.opset, "input_names": _names(program), "verbose": False}
    found = torch.onnx.export(module, tensors, dynamo=True, dynamic_shapes=_shapes(program), **options)
    assert found is not None
    return Exported(found.model_proto)


def _script(program: Program, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> Exported:
    buffer = io.BytesIO()
    options: dict[str, Any] = {"opset_version": program.opset, "input_names": _names(program), "dynamic_axes": _shapes(program)}
    torch.onnx.export(module, tensors, buffer, dynamo=False, **options)
    return Exported(onnx.load_from_string(buffer.getvalue()))


EXPORTERS: Mapping[str, Callable[[Program, torch.nn.Module, tuple[torch.Tensor, ...]], Exported]] = {
    "onnxexp": _onnxexp,
    "dynamo": _dynamo,
    "script": _script,
}
"""onnxexp with the program's frontend; torch.onnx with dynamo=True and with dynamo=False."""
