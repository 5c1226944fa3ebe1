"""The compared tools, with a common signature."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .case import Axes

Args = tuple[torch.Tensor, ...]
Stages = dict[str, float]
Export = Callable[[nn.Module, Args, Sequence[Axes], str, int], Stages]
"""(model, args, dynamic axes by argument, path, opset) -> seconds by stage, empty if the tool does not report them."""

CAPTURE, ONNXEXP, TRACE, CHECKED = "capture", "onnxexp", "trace", "checked trace"
"""A checked trace is taken a second time at other sizes; the peers trace once."""
PEERS = {"dynamo": "torch.onnx dynamo=True", "script": "torch.onnx dynamo=False"}


def _dims(axes: Sequence[Axes]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(named_axes, torch.export.Dim.DYNAMIC) for named_axes in axes)


def _capture(model: nn.Module, args: Args, axes: Sequence[Axes], path: str, opset: int) -> Stages:
    """Run torch.export.export alone, the lower bound of tools that use it."""
    torch.export.export(model, args, dynamic_shapes=_dims(axes), strict=False)
    return {}


def _onnxexp(capture: str, *, check_sizes: bool = False) -> Export:
    def export(model: nn.Module, args: Args, axes: Sequence[Axes], path: str, opset: int) -> Stages:
        import onnxexp

        program = onnxexp.export(
            model, args, path, dynamic_shapes=tuple(axes), opset_version=opset, capture=capture, check_sizes=check_sizes
        )
        return program.timings

    return export


def _dynamo(model: nn.Module, args: Args, axes: Sequence[Axes], path: str, opset: int) -> Stages:
    torch.onnx.export(model, args, path, dynamo=True, dynamic_shapes=tuple(axes), opset_version=opset, verbose=False)
    return {}


def _script(model: nn.Module, args: Args, axes: Sequence[Axes], path: str, opset: int) -> Stages:
    names = [f"input_{index}" for index in range(len(args))]
    named_axes = {name: dict(named) for name, named in zip(names, axes, strict=True)}
    torch.onnx.export(model, args, path, dynamo=False, input_names=names, dynamic_axes=named_axes, opset_version=opset)
    return {}


EXPORTS: dict[str, Export] = {
    CAPTURE: _capture,
    ONNXEXP: _onnxexp("export"),
    TRACE: _onnxexp("trace"),
    CHECKED: _onnxexp("trace", check_sizes=True),
    "dynamo": _dynamo,
    "script": _script,
}


def run(tool: str, model: nn.Module, args: Args, axes: Sequence[Axes], path: str, opset: int) -> Stages:
    """Export a model with a tool, without torch's warnings about its own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EXPORTS[tool](model, args, axes, path, opset)
