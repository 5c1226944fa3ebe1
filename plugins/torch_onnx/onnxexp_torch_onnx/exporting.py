"""`export` with torch.onnx's arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, BinaryIO

import onnx_ir as ir
import torch

import onnxexp
from onnxexp import DEFAULT_OPSET, CaptureError, OptionError, warn
from onnxexp.frontends import unwrapped
from onnxexp_torch_onnx import deprecated_arguments
from onnxexp_torch_onnx.enums import OperatorExportTypes
from onnxexp_torch_onnx.errors import CheckerError, OnnxExporterWarning
from onnxexp_torch_onnx.export_state import logging_to_stdout, training_mode
from onnxexp_torch_onnx.graph_text import PARAMETER, graph_text
from onnxexp_torch_onnx.module_functions import ModuleFunctions, check_opset
from onnxexp_torch_onnx.newer_arguments import NewerArguments
from onnxexp_torch_onnx.number_inputs import Example, export_with_number_inputs, read_example, take_floats_as_doubles
from onnxexp_torch_onnx.onnx_program import ONNXProgram
from onnxexp_torch_onnx.onnxscript_symbolics import combined, translations
from onnxexp_torch_onnx.own_arguments import own_arguments
from onnxexp_torch_onnx.quantized_inputs_and_outputs import quantized_as_parts, with_quantized_parts
from onnxexp_torch_onnx.registry import registered
from onnxexp_torch_onnx.settings import current, settings

_LOGGER = logging.getLogger("onnxexp")


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    export_params: bool = True,
    verbose: bool | None = False,
    training: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: Any = None,
    opset_version: int | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: Mapping[str, Any] | None = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    autograd_inlining: bool = True,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    capture: str = "auto",
    external_data: bool | None = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    verify: bool = False,
    plugins: Sequence[Any] | None = None,
    torch_registrations: bool = False,
    check_sizes: bool | None = None,
    **older: Any,
) -> ONNXProgram:
    """Export a model with torch.onnx.export's arguments and the registered symbolics.

    `onnxexp.export` documents the arguments of the same names. The others are:

    Args:
        training: A member of TrainingMode, or a bool; None is EVAL.
        args, kwargs: As for `onnxexp.export`. An int or a float, and a bool of a script, is an input of the graph, unless
            `dynamic_shapes` is given; a number that the model fixes is a constant, with a warning. A quantized tensor is three
            inputs, and as a result three outputs: integers, scale and zero point.
        dynamic_axes: As for `onnxexp.export`; an input's axis that the model fixes is static, with a warning.
        input_names: Names of the inputs, then of the parameters in the order of the model's state_dict.
        operator_export_type: A member of OperatorExportTypes; None is ONNX.
        keep_initializers_as_inputs: None is True only where operators may stay torch's.
        export_modules_as_functions: True, or a set of classes: each such module becomes a model-local function, with attributes.
        autograd_inlining: False keeps a torch.autograd.Function without a symbolic as one node.
        custom_translation_table: onnxscript functions by torch operator, as in torch's newer exporter.
        plugins, check_sizes: As for `onnxexp.export`.
        torch_registrations: Also use the registrations of `torch.onnx.register_custom_op_symbolic`.
        older: Former arguments of torch.onnx, see `onnxexp_torch_onnx.deprecated_arguments.FIXES`, and those of torch's newer
            exporter, see `onnxexp_torch_onnx.newer_arguments.NewerArguments`.

    Returns:
        The program, already written to `f` if that is not None.

    Raises what `onnxexp.export` raises, and CheckerError if `enable_onnx_checker` is set and the check fails.
    """
    own = own_arguments(model, args, kwargs)
    args, kwargs = own.get("args", args), own.get("kwargs", kwargs)
    input_names, output_names = input_names or own.get("input_names"), output_names or own.get("output_names")
    dynamic_shapes = own.get("dynamic_shapes") if dynamic_shapes is None else dynamic_shapes
    model, args, kwargs = with_quantized_parts(unwrapped(model), capture, args, kwargs)
    newer = NewerArguments.taken_from(older)
    old = deprecated_arguments.read(older, inspect.signature(export).parameters)
    kind = deprecated_arguments.export_type(operator_export_type, old.get("aten"), old.get("export_raw_ir"))
    if keep_initializers_as_inputs is None:
        keep_initializers_as_inputs = kind is not OperatorExportTypes.ONNX and export_params
    symbols = registered(torch=torch_registrations)
    mode = training_mode(training)
    if isinstance(input_names, str):
        raise OptionError(f"input_names must be a list of names, not {input_names!r}")
    fixed = dynamic_shapes is not None or isinstance(model, torch.export.ExportedProgram)
    example = read_example(model, args, kwargs, input_names or (), numbers=not fixed)
    tables: list[Any] = combined(translations(custom_translation_table or {}), symbols.symbolics)
    if export_modules_as_functions:
        check_opset(opset_version or DEFAULT_OPSET)
        tables.append(ModuleFunctions(model, export_modules_as_functions))
    inlining = autograd_inlining and (kind.keeps_all or not kind.keeps_unknown)
    changes = {"autograd_inlining": inlining, "python_ops": symbols.python_ops, "operator_export_type": kind.name}
    state = settings(opset=opset_version or DEFAULT_OPSET, training=mode.name == "TRAINING", **changes)
    with state, quantized_as_parts(model, capture):

        def run(numbers: Any, names: Any, capture: str, axes: Any) -> onnxexp.ONNXProgram:
            return onnxexp.export(
                model, args, kwargs=kwargs, input_names=names, output_names=output_names, opset_version=opset_version,
                dynamic_axes=axes, dynamic_shapes=numbers if dynamic_shapes is None else dynamic_shapes, capture=capture,
                training=mode, plugins=[*tables, *(plugins if plugins is not None else [...])], custom_opsets=custom_opsets,
                export_params=export_params, do_constant_folding=do_constant_folding and newer.optimize,
                keep_initializers_as_inputs=keep_initializers_as_inputs, operator_export_type=kind, verify=verify,
                check_sizes=check_sizes,
            )  # fmt: skip

        numbered = functools.partial(export_with_number_inputs, example, capture=capture)
        made = export_without_fixed_axes(lambda axes: numbered(functools.partial(run, axes=axes)), dynamic_axes)
    program = ONNXProgram.of(made, model)
    with logging_to_stdout() if verbose or newer.profile else contextlib.nullcontext():
        _finish(program, model, example, f, old, verbose, external_data)
    newer.write(program)
    return program


def _parameters(program: ONNXProgram, model: Any) -> list[ir.Value | None]:
    """Find the graph's value of each parameter, in the order of the state_dict.

    Tied parameters count once. The value is None for a parameter that the graph does not have. The metadata of each value gets
    its position.
    """
    if not isinstance(model, torch.nn.Module):
        return []
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    graph = program.model.graph
    known = {str(value.name): value for value in graph.inputs} | dict(graph.initializers)
    found = [next((known[name] for name in tied if name in known), None) for tied in names.values()]
    for index, value in enumerate(found):
        if value is not None:
            value.meta[PARAMETER] = index
    return found


def _name_parameters(program: ONNXProgram, parameters: Sequence[ir.Value | None], names: Sequence[str]) -> None:
    """Rename the parameters, in their order."""
    for value, name in zip(parameters, names, strict=False):
        if value is None:
            continue
        old, value.name = str(value.name), name
        if old in program.weights:
            program.weights[name] = program.weights.pop(old)
    if len(names) > len(parameters):
        warn(f"there are more input_names than inputs and parameters: {names[len(parameters) :]}")


def _order_inputs(program: ONNXProgram, parameters: Sequence[ir.Value | None]) -> None:
    """Put the parameters behind the inputs of the call, in their order."""
    inputs = program.model.graph.inputs
    first = [value for value in inputs if PARAMETER not in value.meta]
    behind = [value for value in parameters if value is not None and value.is_graph_input()]
    inputs.clear()
    inputs.extend([*first, *behind])


def _finish(
    program: ONNXProgram, model: Any, example: Example, f: Any, old: Mapping[str, Any], verbose: bool | None, external: Any
) -> None:
    """Name and order the parameters, apply older arguments, write, log and print."""
    take_floats_as_doubles(program, example)
    parameters = _parameters(program, model)
    _name_parameters(program, parameters, example.parameter_names)
    _order_inputs(program, parameters)
    _apply_older_arguments(program, old, verbose)
    if old.get("use_external_data_format") is not None and external is None:
        external = bool(old["use_external_data_format"])
    if f is not None:
        if current().drops_unused_inputs:
            _drop_unused_inputs(program.model.graph, parameters)
        program.save(f, external_data=external)
    for stage, seconds in program.timings.items():
        _LOGGER.info("%s: %.3f s", stage, seconds)
    if verbose:
        print(graph_text(program.model, model))


def _drop_unused_inputs(graph: ir.Graph, parameters: Sequence[ir.Value | None]) -> None:
    """Remove the inputs that are neither used nor parameters nor outputs."""
    kept = {id(value) for value in (*parameters, *graph.outputs)}
    for value in list(graph.inputs):
        if not value.uses() and id(value) not in kept and value.name not in graph.initializers:
            graph.inputs.remove(value)


def _apply_older_arguments(program: ONNXProgram, old: Mapping[str, Any], verbose: bool | None) -> None:
    """Apply older arguments and `verbose` to the finished model."""
    model = program.model
    if verbose or old.get("strip_doc_string") is False:
        for node in model.graph.all_nodes():
            node.doc_string = node.metadata_props.get("onnxexp.source")
    if old.get("_retain_param_name") is False:
        for number, value in enumerate(list(model.graph.initializers.values())):
            value.name = f"param_{number}"
    if old.get("add_node_names") is False:
        for node in model.graph.all_nodes():
            node.name = None
    if old.get("enable_onnx_checker"):
        import onnx

        try:
            onnx.checker.check_model(program.model_proto, full_check=True)
        except onnx.checker.ValidationError as error:
            raise CheckerError(f"onnx's checker rejects the model: {error}") from error


def export_to_pretty_string(
    model: Any,
    args: Any,
    export_params: Any = True,
    verbose: bool = False,
    training: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: Any = None,
    export_type: Any = None,
    google_printer: bool = False,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    add_node_names: bool | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    """Export, and return the graph as text instead of a model.

    The arguments are those of `export`, and `google_printer`, which selects onnx's own text form. No file is written, and
    nothing is printed. Therefore, `export_type` (the former packing of files), a file in the place of `export_params` (a former
    order) and `verbose` have no effect.
    """
    if add_node_names is not None:
        options["add_node_names"] = add_node_names
    program = export(
        model, args, None, export_params if isinstance(export_params, bool) else True, False, training, input_names,
        output_names, operator_export_type, opset_version, do_constant_folding, dynamic_axes, keep_initializers_as_inputs,
        custom_opsets, **options,
    )  # fmt: skip
    if google_printer:
        import onnx

        return str(onnx.printer.to_text(program.model_proto))
    return graph_text(program.model, model)


_FIXED = re.compile(
    r"axis (\d+) of input (\S+)(?: \([^)]*\))? was asked to be dynamic, but the model fixes it to (?:\d+|the size of)"
)
"""The reason in a CaptureError of the core or of the TorchScript frontend."""
_UNKNOWN = re.compile(r"dynamic_axes\['(.*)'\]: the model has no input or output of that name")
_NO_AXIS = re.compile(r"dynamic_axes\['(.*)'\]: there is no axis (-?\d+); the output's shape is")
"""Reasons in an OptionError of the core."""


def export_without_fixed_axes(run: Callable[[Any], onnxexp.ONNXProgram], axes: Any) -> onnxexp.ONNXProgram:
    """Export with `dynamic_axes`, except for those that the model cannot have.

    The model cannot have names of inputs that it lacks, axes that an input lacks, and axes that it fixes. Each of them causes a
    warning with the reason. Raises what `run` raises for any other reason.
    """
    reasons: list[str] = []
    while True:
        try:
            program = run(axes)
            break
        except CaptureError as error:
            found = {(name, int(axis)) for axis, name in _FIXED.findall(str(error))}
            remaining = _without(axes, found)
            if remaining == axes:
                raise
            named = ", ".join(f"axis {axis} of {name}" for name, axis in sorted(found))
            reasons.append(f"dynamic_axes: the model fixes {named}, so the file has a static size there: {error}")
            axes = remaining
        except OptionError as error:
            if unknown := _UNKNOWN.match(str(error)):
                axes = {key: given for key, given in axes.items() if key != unknown[1]}
            elif absent := _NO_AXIS.match(str(error)):
                axes = _without(axes, {(absent[1], int(absent[2]))})
            else:
                raise
            reasons.append(f"{error} The entry has no effect.")
    for reason in reasons:
        warn(reason, OnnxExporterWarning)
    return program


def _without(axes: Any, found: set[tuple[str, int]]) -> Any:
    """Copy `dynamic_axes` without these axes.

    Axes that are counted from the end are kept.
    """
    if not isinstance(axes, Mapping):
        return axes
    return {
        key: {axis: name for axis, name in given.items() if (key, axis) not in found}
        if isinstance(given, Mapping)
        else [axis for axis in given if (key, axis) not in found]
        for key, given in axes.items()
    }
