"""From a model to a neutral graph, by the first frontend that captures it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from onnxexp.capture import torchscript
from onnxexp.capture.frontend import CapturedProgram, CaptureRefused, check_tensors, warn_of_constants
from onnxexp.capture.model_tensors import Parts
from onnxexp.capture.torch_export import strategy
from onnxexp.errors import CaptureError
from onnxexp.request.dynamic_shapes import DynamicSpec

if TYPE_CHECKING:  # options are read before anything is captured, and `onnxexp.request.options` imports from here
    from onnxexp.request.options import Options

__all__ = ["CapturedProgram", "capture"]

_FRONTENDS = (strategy.capture, torchscript.capture)


def capture(
    model: torch.nn.Module | ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, options: Options
) -> CapturedProgram:
    """Capture a model as `options` ask; a module or program that is captured already is taken as it is.

    Raises CaptureError that names each attempt and the reason why it failed.
    """
    if isinstance(model, torch.nn.Module):
        check_tensors(Parts.of(model), spec)
    try:
        program, refused = _first(model, args, kwargs, spec, options), None
    except CaptureRefused as error:
        refused = CaptureError(str(error))
        if options.capture != "auto":
            raise refused from None
        program = _traced(model, args, kwargs, spec, options, refused)
    warn_of_constants(program.constants, refused)
    return program


def _first(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, options: Options) -> CapturedProgram:
    """The result of the first frontend that takes the model."""
    for frontend in _FRONTENDS:
        program = frontend(model, args, kwargs, spec, options)
        if program is not None:
            return program
    raise CaptureError(f"no frontend captures {type(model).__name__} with capture={options.capture!r}")


def _traced(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, options: Options, refused: CaptureError
) -> CapturedProgram:
    """Trace a model that torch.export has refused."""
    try:
        return _first(model, args, kwargs, spec, dataclasses.replace(options, capture="trace"))
    except CaptureError as error:
        raise CaptureError(f"{refused}\n  torch.jit.trace: {error}".rstrip()) from None
