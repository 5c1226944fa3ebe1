"""The measured exporters with a common signature, and the classes of their errors."""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Callable

import onnx
import torch

import onnxexp
from onnxexp.errors import CaptureError, LoweringError, OpsetError, UnsupportedOperators

__all__ = ["DYNAMIC", "EXPORTERS", "Tensors", "classify", "export", "warm"]

Tensors = tuple[torch.Tensor, ...]
Export = Callable[[torch.nn.Module, Tensors, list[str], int], onnx.ModelProto]


def _onnxexp(capture: str) -> Export:
    def run(model: torch.nn.Module, tensors: Tensors, names: list[str], opset: int) -> onnx.ModelProto:
        return onnxexp.export(model, tensors, opset_version=opset, input_names=names, capture=capture).model_proto

    return run


def _axes(tensors: Tensors, names: list[str]) -> dict[str, list[int]]:
    """Return the axes that may be dynamic: those longer than 1.

    Size 1 means broadcasting, size 0 an empty tensor.
    """
    every = {name: [axis for axis, size in enumerate(x.shape) if size > 1] for name, x in zip(names, tensors, strict=True)}
    return {name: axes for name, axes in every.items() if axes}


def _dynamic(model: torch.nn.Module, tensors: Tensors, names: list[str], opset: int) -> onnx.ModelProto:
    """Export with every axis dynamic if torch.export can make it so.

    It also finds equal axes.
    """
    shapes = {name: dict.fromkeys(axes, torch.export.Dim.AUTO) for name, axes in _axes(tensors, names).items()}
    return onnxexp.export(model, tensors, opset_version=opset, input_names=names, dynamic_shapes=shapes).model_proto


def _trace_dynamic(model: torch.nn.Module, tensors: Tensors, names: list[str], opset: int) -> onnx.ModelProto:
    """Trace with every axis requested to be dynamic."""
    options = {"opset_version": opset, "input_names": names, "capture": "trace"}
    return onnxexp.export(model, tensors, dynamic_axes=_axes(tensors, names), **options).model_proto


def _dynamo(model: torch.nn.Module, tensors: Tensors, names: list[str], opset: int) -> onnx.ModelProto:
    program = torch.onnx.export(model, tensors, dynamo=True, opset_version=opset, input_names=names, verbose=False)
    assert program is not None
    return program.model_proto


def _script(model: torch.nn.Module, tensors: Tensors, names: list[str], opset: int) -> onnx.ModelProto:
    buffer = io.BytesIO()
    torch.onnx.export(model, tensors, buffer, dynamo=False, opset_version=opset, input_names=names)
    return onnx.load_from_string(buffer.getvalue())


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
"""The exporters whose models are checked at a second shape."""


def export(exporter: str, model: torch.nn.Module, tensors: Tensors, opset: int) -> onnx.ModelProto:
    """Export a model; the tools' own output is hidden."""
    names = [f"input_{index}" for index in range(len(tensors))]
    inputs = tuple(tensor.clone() for tensor in tensors)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return EXPORTERS[exporter](model, inputs, names, opset)


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
