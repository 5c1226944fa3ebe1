"""The measured exporters with a common signature, and the classes of their errors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import torch

import onnxexp
from onnxexp._errors import CaptureError, LoweringError, OnnxExporterError, OpsetError, UnsupportedOperators

Tensors = tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of an exporter; `axes` are the dynamic axes of each input."""

    model: torch.nn.Module
    tensors: Tensors
    names: list[str]
    opset: int
    axes: Mapping[str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Exported:
    """A model, and whether its program takes inputs of other sizes.

    The program refuses sizes outside of the range that the export has stated.
    """

    model: onnx.ModelProto
    takes: Callable[[Sequence[torch.Tensor]], bool] = lambda tensors: True


Export = Callable[[Request], Exported]


def _onnxexp(capture: str) -> Export:
    return lambda request: _program(request, capture=capture)


def _program(request: Request, **options: Any) -> Exported:
    program = onnxexp.export(request.model, request.tensors, opset_version=request.opset, input_names=request.names, **options)

    def takes(tensors: Sequence[torch.Tensor]) -> bool:
        try:
            program.signature.flatten(tensors, {})
        except OnnxExporterError:
            return False
        return True

    return Exported(program.model_proto, takes)


def _dynamic(request: Request) -> Exported:
    """Export with Dim.AUTO: torch.export decides which axes are dynamic or equal."""
    return _program(
        request, dynamic_shapes={name: dict.fromkeys(axes, torch.export.Dim.AUTO) for name, axes in request.axes.items()}
    )


def _trace_dynamic(request: Request) -> Exported:
    return _program(request, dynamic_axes=request.axes, capture="trace")


def _dynamo(request: Request) -> Exported:
    program = torch.onnx.export(
        request.model, request.tensors, dynamo=True, opset_version=request.opset, input_names=request.names, verbose=False
    )
    assert program is not None
    return Exported(program.model_proto)


def _script(request: Request) -> Exported:
    buffer = io.BytesIO()
    names = request.names
    torch.onnx.export(request.model, request.tensors, buffer, dynamo=False, opset_version=request.opset, input_names=names)
    return Exported(onnx.load_from_string(buffer.getvalue()))


EXPORTERS: dict[str, Export] = {
    "export": _onnxexp("export"),
    "trace": _onnxexp("trace"),
    "dynamic": _dynamic,
    "trace-dynamic": _trace_dynamic,
    "dynamo": _dynamo,
    "script": _script,
}
"""onnxexp through torch.export and through tracing, also with dynamic shapes; torch.onnx with dynamo=True and dynamo=False."""

DYNAMIC = ("dynamic", "trace-dynamic")
"""The exporters whose models are checked at other sizes."""


def export(exporter: str, model: torch.nn.Module, tensors: Tensors, opset: int, axes: Sequence[Sequence[int]] = ()) -> Exported:
    """Export a model; the tools' own output is hidden.

    `axes` are the axes of each tensor that are to be dynamic. The inputs are named input_0, input_1, ...
    """
    names = [f"input_{index}" for index in range(len(tensors))]
    inputs = tuple(tensor.clone() for tensor in tensors)
    dynamic = {name: list(given) for name, given in zip(names, axes, strict=False) if given}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return EXPORTERS[exporter](Request(model, inputs, names, opset, dynamic))


@functools.cache
def warm(exporter: str, opset: int) -> None:
    """Run a tiny export, so that no sample includes the time of an exporter's imports."""
    export(exporter, torch.nn.ReLU(), (torch.ones(2),), opset)


def classify(error: BaseException) -> str:
    """Classify an error as a refusal (unsupported, opset, capture) or a crash."""
    if isinstance(error, OpsetError):
        return "opset"
    if isinstance(error, UnsupportedOperators):
        return "unsupported"
    if isinstance(error, LoweringError):
        cause = error.__cause__
        return "unsupported" if cause is None or isinstance(cause, LoweringError) else "crash"
    if isinstance(error, CaptureError):
        return "capture"
    return "unsupported" if type(error).__module__.startswith("torch.onnx") else "crash"
