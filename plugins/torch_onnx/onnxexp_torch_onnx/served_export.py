"""Serve a call of torch.onnx.export.

Its arguments, defaults, files and result are those of the caller's torch.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnxexp import CaptureError, OptionError, warn
from onnxexp.frontends import signature_of
from onnxexp.graph import Value
from onnxexp.rewriting import UniqueNames
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from onnxexp_torch_onnx.export_state import logging_to_stdout
from onnxexp_torch_onnx.exporting import export
from onnxexp_torch_onnx.onnx_program import ONNXProgram
from onnxexp_torch_onnx.own_arguments import own_arguments
from onnxexp_torch_onnx.settings import settings
from onnxexp_torch_onnx.torch_onnx_state import torch_export

_SURPLUS = re.compile(r"output_names gives \d+ names .*, but the model has (\d+) outputs?:")
"""The reason in an OptionError of the core."""


def serve(values: dict[str, Any], *, dynamo: bool) -> ONNXProgram | None:
    """Export with torch.onnx.export's arguments by name.

    `dynamo` is the default of the caller's torch.

    Returns:
        The program; None where `dynamo` is False and there is a file, as torch does.

    Raises:
        OnnxExporterError: As `onnxexp_torch_onnx.export` does.
    """
    values, is_program = _with_example(values), isinstance(values.get("model"), torch.export.ExportedProgram)
    chosen = values.pop("dynamo", None)
    if not (is_program or (dynamo if chosen is None else bool(chosen))):
        with torch_export(values.get("opset_version")), settings(drops_unused_inputs=True):
            program = _traced_if_need_be({**_OPTIONS, **_one_form_of_axes(values)[0]})
        return program if values.get("f") is None else None
    options, axes = _one_form_of_axes(values)
    file, external_data = options.pop("f", None), options.pop("external_data", None)
    saved = {name: options.pop(name, default) for name, default in _SAVED.items()}
    _warn_of_training(options)
    verbose = bool(options.pop("verbose", False))  # the log, where the former exporter prints the graph
    with torch_export(values.get("opset_version")), logging_to_stdout() if verbose else contextlib.nullcontext():
        program = _with_fewer_names({**_OPTIONS, **options})
    _name_outputs(program, len(options.get("output_names") or ()))
    if axes is not None:
        _name_axes(program, axes)
    if file is not None:
        _save(program, file, saved, external_data)
    return program


_OPTIONS = {"torch_registrations": True}
"""Options that a call of torch.onnx cannot give, as torch has them."""
_SAVED = {"export_params": True, "keep_initializers_as_inputs": False}
"""Arguments that torch's newer exporter applies to the file alone, with their defaults."""


def _with_example(values: dict[str, Any]) -> dict[str, Any]:
    """Add the arguments of an ExportableModule; keep a dictionary that is an argument."""
    model, args = values.get("model"), values.get("args", ())
    own = own_arguments(model, args, values.get("kwargs"))
    if own:  # as in torch, its newer exporter
        return {"dynamo": True, **values, **{name: value for name, value in own.items() if values.get(name) in (None, ())}}
    if type(args) is dict and args and not _are_keywords(model, args):
        return {**values, "args": (args, {})}
    return values


def _are_keywords(model: Any, args: Mapping[Any, Any]) -> bool:
    parameters = signature_of(model).parameters.values()
    names = {each.name for each in parameters}
    return bool(names & args.keys()) or any(each.kind is each.VAR_KEYWORD for each in parameters)


def _one_form_of_axes(values: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Drop what has no effect of `dynamic_axes` and `dynamic_shapes`.

    Also returns the names of an ExportedProgram's axes, None for any other model.
    """
    shapes, axes = values.get("dynamic_shapes"), values.get("dynamic_axes")
    is_program = isinstance(values.get("model"), torch.export.ExportedProgram)
    reason = "beside dynamic_shapes" if shapes is not None else "for an ExportedProgram, whose axes are fixed already"
    if axes is not None and (shapes is not None or is_program):
        warn(f"dynamic_axes has no effect {reason}", OnnxExporterWarning)
        values = {name: value for name, value in values.items() if name != "dynamic_axes"}
    if not is_program:
        return values, None
    return {name: value for name, value in values.items() if name != "dynamic_shapes"}, shapes


def _warn_of_training(options: Mapping[str, Any]) -> None:
    if options.get("training") is None and getattr(options.get("model"), "training", False) is True:
        warn(
            "the model is in training mode, in which torch.onnx exports it; onnxexp exports it for inference. Call model.eval() "
            "before, or pass training=torch.onnx.TrainingMode.PRESERVE for the model as it is",
            OnnxExporterWarning,
        )


def _with_fewer_names(options: dict[str, Any]) -> ONNXProgram:
    """Export; names of outputs that the model lacks are dropped, with a warning."""
    try:
        return export(**options)
    except OptionError as error:
        found = _SURPLUS.match(str(error))
        if found is None:
            raise
        names = options["output_names"]
        program = export(**{**options, "output_names": list(names)[: int(found[1])]})
        warn(f"{error} The last names have no effect.", OnnxExporterWarning)
        return program


def _traced_if_need_be(options: dict[str, Any]) -> ONNXProgram:
    """Export; where the capture fixes what depends on a size, trace without the check.

    torch's tracer, which ``dynamo=False`` selects, exports such models too. A warning gives the reason.

    Raises CaptureError where the trace fails as well.
    """
    try:
        return _with_fewer_names(options)
    except CaptureError as error:
        refused = error
    try:
        program = _with_fewer_names({**options, "capture": "trace", "check_sizes": False})
    except CaptureError:
        raise refused from None
    warn(f"the file is right at the example's sizes, and may be wrong at others, as torch.onnx's: {refused}", OnnxExporterWarning)
    return program


def _name_outputs(program: ONNXProgram, given: int) -> None:
    """Name the outputs after the first `given` by the operators that make them.

    These are the names that torch's newer exporter gives. An output that is an input keeps its name.
    """
    outputs = program.model.graph.outputs
    captured = [value for value in program.record.graph.outputs if isinstance(value, Value)] if program.record else []
    if len(captured) != len(outputs):
        return
    names = UniqueNames.of(program.model.graph)
    for output, value in list(zip(outputs, captured, strict=True))[given:]:
        if output.producer() is not None and output.name != value.name:
            output.name = names.unique(value.name)


def _name_axes(program: ONNXProgram, shapes: Any) -> None:
    """Name the axes of an ExportedProgram as `dynamic_shapes` does."""
    inputs = program.model.graph.inputs
    entries = list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes)
    if len(entries) != len(inputs) or any(
        isinstance(each, Mapping) and not all(type(key) is int for key in each) for each in entries
    ):
        warn(
            "dynamic_shapes of an ExportedProgram has no effect: it needs one entry for each input of the graph",
            OnnxExporterWarning,
        )
        return
    names: dict[Any, str] = {}
    for value, axes in zip(inputs, entries, strict=False):
        for axis, given in axes.items() if isinstance(axes, Mapping) else enumerate(axes or ()):
            name = given if isinstance(given, str) else getattr(given, "__name__", None)
            if name is not None and value.shape is not None and not isinstance(value.shape[axis], int):
                names[value.shape[axis]] = name
    if names:
        program.rename_axes(names)


def _save(program: ONNXProgram, file: Any, saved: Mapping[str, Any], external_data: bool | None) -> None:
    """Write the file as torch's newer exporter does: the weights in a second one."""
    external = isinstance(file, (str, os.PathLike)) and (external_data is None or bool(external_data))
    program.save(
        file,
        include_initializers=bool(saved["export_params"]),
        keep_initializers_as_inputs=bool(saved["keep_initializers_as_inputs"]),
        external_data=external and bool(program.model.graph.initializers),
    )


def by_name(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names.

    `function` has the order of those by position, if it takes them all; else it is that of `onnxexp_torch_onnx.export`. Raises
    TypeError as Python does.
    """
    signature, own = inspect.signature(function), inspect.signature(export)
    open_ended = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
    try:
        bound = (own if open_ended else signature).bind_partial(*args)
    except TypeError:
        bound = own.bind_partial(*args)
    twice = bound.arguments.keys() & options.keys()
    if twice:
        raise TypeError(f"export() got multiple values for argument {min(twice)!r}")
    return {**bound.arguments, **options}
