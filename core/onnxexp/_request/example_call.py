"""The model and its example call, read from the arguments of `export`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp._errors import OptionError
from onnxexp._request.dynamic_shapes import DynamicSpec, read_dynamic
from onnxexp._request.module_and_forward import as_module, forward_of
from onnxexp._request.tensor_list import TensorList


@dataclasses.dataclass(eq=False)
class ExampleCall:
    """The model and the example call for its capture.

    Attributes:
        model: The model to capture: a module, or an ExportedProgram as given.
        module: The model as a module; for an ExportedProgram the module that it unflattens to.
        args, kwargs: The example's arguments.
        spec: The dynamic axes and numbers, and the inputs' names.
        forward: The parameters of the model's forward.
        weights: Tensors that take the place of the module's own, see `find_weights`: path of the owner, name, tensor.
    """

    model: torch.nn.Module | ExportedProgram
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: DynamicSpec
    forward: inspect.Signature
    weights: Sequence[tuple[str, str, torch.Tensor]] = ()


def read_call(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    capture: str = "auto",
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> ExampleCall:
    """Read the model and the example.

    Raises OptionError where arguments do not fit the model or contradict each other.
    """
    program = model if isinstance(model, ExportedProgram) else None
    given = positional, named = _arguments(args, kwargs)
    if program is not None:
        if dynamic_shapes is not None or dynamic_axes is not None:
            raise OptionError(
                "the dynamic axes of an ExportedProgram are fixed already: give dynamic_shapes to torch.export.export instead"
            )
        if program.example_inputs is None:
            raise OptionError("this ExportedProgram has no example inputs, from which the names of the inputs are read")
        positional, named = program.example_inputs
        if not any(given):
            given = positional, named
        elif pytree.tree_structure(given) != pytree.tree_structure((positional, named)):
            raise OptionError(
                "args are not built like the example inputs of the ExportedProgram: leave them out, or nest them alike"
            )
    module = program.module(check_guards=False) if program is not None else as_module(model)
    forward = forward_of(module)
    positional, named = TensorList.in_call(module, positional, named, capture, dynamic_shapes, dynamic_axes)
    spec = read_dynamic(forward, positional, named, dynamic_shapes, dynamic_axes, input_names, output_names, program)
    args, kwargs = given if program is not None else (positional, named)
    return ExampleCall(program or module, module, tuple(args), dict(kwargs), spec, inspect.signature(forward))


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split args by torch.onnx's convention.

    A lone argument needs no tuple, and a dict at the end is the keyword arguments.
    """
    if isinstance(args, list):
        raise OptionError("args is a list: give a tuple of the positional arguments, or ([...],) where the model takes a list")
    positional = args if type(args) is tuple else (args,)
    if positional and type(positional[-1]) is dict:
        if positional[-1] and kwargs:
            raise OptionError("keyword arguments come both as the last element of args and as kwargs: give them once")
        return positional[:-1], {**positional[-1], **(kwargs or {})}
    return positional, dict(kwargs or {})
