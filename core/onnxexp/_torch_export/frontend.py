"""Frontend for torch.export: capture a model, or convert a given ExportedProgram."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp._capture.captured_program import CapturedProgram, CaptureRefused
from onnxexp._capture.exact_reshape_sizes import exact_reshape_sizes
from onnxexp._capture.example_inputs import adapted_inputs, describe_enlargement, enlargement_note, other_examples, with_sizes
from onnxexp._capture.fitting_examples import fitting_example
from onnxexp._capture.kept_tensors import assigned_attributes, warn_of_kept_tensors
from onnxexp._capture.preserved_model import preserved_model
from onnxexp._capture.redirect import Redirect, SlowSizes, TimedRedirect, redirected_in
from onnxexp._capture.restored_state import restored_state
from onnxexp._capture.source_lines import model_error, record_user_lines
from onnxexp._capture.torch_state import model_mode, replace_attributes, silence_torch_export, torch_mode, unwind_functorch
from onnxexp._decompose.node_decomposer import Decomposer
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, TensorType, Value
from onnxexp._plugins.hookspecs import hookimpl
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.export_context import ExportContext
from onnxexp._request.module_and_forward import is_scripted
from onnxexp._request.options import Options
from onnxexp._request.pytree_leaves import register_containers
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._torch_export.autocast_regions import resolve_autocast
from onnxexp._torch_export.empty_examples import not_empty
from onnxexp._torch_export.export_errors import branches_on_values, explain
from onnxexp._torch_export.frozen_sizes import check_assumed_sizes, frozen_sizes, holds_at_example, larger_sizes
from onnxexp._torch_export.guard_warnings import fixed_numbers, ranks_of_call, record_guard_sources, restrictions
from onnxexp._torch_export.program_converter import mutated_names, retrace_incomplete, to_graph
from onnxexp._torch_export.program_modes import fake_mode
from onnxexp._torch_export.symbol_names import check_dynamic, symbol_names
from onnxexp._torch_export.symbolic_int import converting_files, symbolic_int
from onnxexp._torch_export.value_checks import VALUE_CHECKS

_SLICE = "aten::slice.Tensor"


class _RefusedAtAllSizes(CaptureRefused):
    """torch.export fails for a reason that no other example size changes."""


class _ModelRefuses(_RefusedAtAllSizes):
    """The model itself fails on the enlarged example."""


@hookimpl
def capture(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    options: Options,
    context: ExportContext,
) -> CapturedProgram | None:
    """Capture a model through torch.export.

    Returns None if the model or the options require TorchScript.

    Raises:
        CaptureRefused: torch.export failed.
        CaptureError: The captured program has no counterpart in a neutral graph.
    """
    if isinstance(model, ExportedProgram):
        return from_exported(model, spec)
    if options.capture not in ("auto", "export") or is_scripted(model):
        return None
    program = export_program(model, args, kwargs, spec, context)
    excluded = not_empty(program, model, args, kwargs, spec, options.training)
    captured = from_exported(program, spec)
    return dataclasses.replace(captured, restrictions={**captured.restrictions, **excluded})


def from_exported(program: ExportedProgram, spec: DynamicSpec) -> CapturedProgram:
    """Convert an ExportedProgram.

    Raises:
        CaptureError: An axis that was requested to be dynamic is static, or a call has no counterpart in a neutral graph.
    """
    program = resolve_autocast(retrace_incomplete(program))
    check_dynamic(program, spec)
    names = symbol_names(program, spec)
    allowed = restrictions(program, spec)
    sizes: dict[SymbolicSize, Any] = {}

    def dim_of(size: Any) -> Dim:
        readable = names.size(size)
        if isinstance(readable, SymbolicSize):
            sizes.setdefault(readable, size)
        return readable

    graph = to_graph(program, dim_of)
    varying = ranks_of_call(program, spec)
    for value in graph.outputs:
        if isinstance(value, Value) and value.name in varying and isinstance(value.type, TensorType):
            value.type = TensorType(value.type.dtype, None)
    _compute_empty_slices(graph)
    decomposer = Decomposer(functools.partial(fake_mode, program), sizes, dim_of)
    assert program.call_spec.in_spec is not None and program.call_spec.out_spec is not None
    return CapturedProgram(
        graph,
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        decompose=decomposer,
        written=mutated_names(program),
        restrictions=allowed,
    )


def _compute_empty_slices(graph: Graph) -> None:
    """Drop the shapes of slices without elements, which are constants otherwise.

    torch may take their other sizes for those of another axis: ``x[:, : x.size(2), 3:3]``.
    """
    for node in graph.walk():
        for value in node.outputs if node.op == _SLICE else ():
            if not isinstance(value.type, TensorType) or value.type.sizes is None or 0 not in value.type.sizes:
                continue
            if any(isinstance(size, SymbolicSize) for size in value.type.sizes):
                value.type = TensorType(value.type.dtype, None)


def export_program(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, context: ExportContext
) -> ExportedProgram:
    """Run torch.export on a model, at sizes that the model accepts.

    Raises:
        CaptureRefused: The model fixes a size that is computed from a dynamic axis.
        CaptureRefused, CaptureError: See `_export_example`.
    """

    def run(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        with torch_mode(), model_mode(model.modules(), context.options.training):
            _run(model, args, kwargs)

    try:
        program = _export_larger(model, args, kwargs, spec, context)
    except _ModelRefuses:
        fitting = fitting_example(run, args, kwargs, spec)
        if fitting is None:
            raise
        program = _export_larger(model, *fitting, spec, context)
    if reason := frozen_sizes(program, spec):
        raise CaptureRefused(f"the model could not be captured:\n  torch.export: {reason}")
    return program


def _export_larger(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, context: ExportContext
) -> ExportedProgram:
    """Run torch.export on a model, and on a larger example if `larger_sizes` has one.

    A model that fixes a size may do so only where a derived size is 1: try twice the sizes then.

    Raises:
        CaptureRefused, CaptureError: See `_export_example`.
    """
    try:
        program = _export_example(model, args, kwargs, spec, context)
    except CaptureRefused as refused:
        again = [] if isinstance(refused, _RefusedAtAllSizes) else list(other_examples(args, kwargs, spec))[-1:]
        for _, larger, larger_kwargs in again:
            with contextlib.suppress(CaptureError):
                program = _export_example(model, larger, larger_kwargs, spec, context)
                found = _export_at_larger_sizes(program, model, larger, larger_kwargs, spec, context)
                if found is not None or holds_at_example(program, spec):
                    return found or program
        raise
    return _export_at_larger_sizes(program, model, args, kwargs, spec, context) or program


def _export_at_larger_sizes(
    program: ExportedProgram,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    context: ExportContext,
) -> ExportedProgram | None:
    """Run torch.export at the sizes that `larger_sizes` finds for a program.

    None if there are none, if the model refuses them, or if the result is not right at the user's.
    """
    if sizes := larger_sizes(program, spec):
        with contextlib.suppress(CaptureError):
            again = _export_example(model, *with_sizes(args, kwargs, sizes), spec, context)
            return again if holds_at_example(again, spec) else None
    return None


def _export_example(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, context: ExportContext
) -> ExportedProgram:
    """Run torch.export on a model, non-strict, then strict.

    Raises:
        CaptureRefused: Both attempts failed; the message has both reasons.
        CaptureError: The model itself fails on the example inputs, or it fixes a number computed from a dynamic size.
    """
    failures: dict[str, list[str]] = {}
    error_class: type[CaptureError] = CaptureRefused
    with (
        torch_mode(),
        model_mode(model.modules(), context.options.training),
        adapted_inputs(model, args, kwargs, spec) as (example, example_kwargs),
    ):
        attempts, failure = [False, True], None
        while attempts:
            strict, before, failure = attempts[0], failure, None
            try:
                program = _export(model, example, example_kwargs, spec, context, strict)
                reason = fixed_numbers(program, spec)
                if not reason:
                    return program
                error_class = CaptureError  # a trace fixes it as well
            except Exception as error:  # noqa: BLE001 - torch.export passes on any exception of the model
                failure = error
            if failure is not None:  # after `except`: torch's tracebacks are no context of an error of the model itself
                changed = describe_enlargement(spec, example, example_kwargs)
                if not strict and _register_output_classes(model, example, example_kwargs, changed):
                    continue
                reason = explain(failure, spec, changed, before)
                if branches_on_values(failure) or isinstance(failure, SlowSizes):
                    error_class, attempts = _RefusedAtAllSizes if error_class is CaptureRefused else error_class, attempts[:1]
            failures.setdefault(reason, []).append(f"torch.export (strict={attempts.pop(0)})")
        if not isinstance(failure, SlowSizes):
            kept = _export_with_symbolic_int(model, example, example_kwargs, spec, context, failures)
            if kept is not None:
                return kept
    reasons = [f"{' and '.join(strategies)}: {reason}" for reason, strategies in failures.items()]
    lines = "\n".join(f"  {line}".replace("\n", "\n    ") for line in reasons)
    # `from None`: the traceback through torch's tracer has no line of the user's code
    raise error_class(f"the model could not be captured:\n{lines}") from None


def _export_with_symbolic_int(
    model: torch.nn.Module, args: Any, kwargs: Any, spec: DynamicSpec, context: ExportContext, reasons: Iterable[str]
) -> ExportedProgram | None:
    """Run torch.export with an ``int`` that keeps symbolic numbers.

    It is replaced in the files of the lines in `reasons` of refusals that call it, and again in those of a further refusal. None
    if no line calls it, or if torch.export fails again.
    """
    files, reason = set[str](), ""
    while len(further := files | converting_files([*reasons, reason])) > len(files):
        files = further
        try:
            program = _export(model, args, kwargs, spec, context, strict=False, files=files)
            reason = fixed_numbers(program, spec)
            if not reason:
                return program
        except Exception as error:  # noqa: BLE001 - torch.export passes on any exception of the model
            reason = explain(error, spec, (), None)
    return None


def _export(
    model: torch.nn.Module,
    args: Any,
    kwargs: Any,
    spec: DynamicSpec,
    context: ExportContext,
    strict: bool,
    files: Collection[str] = (),
) -> ExportedProgram:
    """Run torch.export once; in these files, ``int`` keeps symbolic numbers."""
    rows = [*context.redirections, *([] if strict else VALUE_CHECKS)]
    mode = TimedRedirect if context.options.capture == "auto" else Redirect  # a trace may follow
    with (
        restored_state(model, buffers=False),  # also before the program is read: constants share their memory with the model
        unwind_functorch(),
        silence_torch_export(),
        record_user_lines(),
        record_guard_sources(),
        exact_reshape_sizes(),
        redirected_in(mode, rows, model, attributes=strict),
        replace_attributes(symbolic_int(files)),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")  # most of them concern torch's internals only
        program = torch.export.export(model, args, kwargs, dynamic_shapes=spec.shapes, strict=strict)
        check_assumed_sizes(program, args, kwargs)
    warn_of_kept_tensors(model, args, kwargs, assigned_attributes(caught))
    return program


def _register_output_classes(model: torch.nn.Module, args: Any, kwargs: Any, changed: Sequence[str]) -> bool:
    """Run the model once, and register its dataclasses with torch's pytree.

    Returns True if a new class was registered, so that another attempt may succeed.

    Raises:
        _ModelRefuses: The model fails on an example with `changed` sizes.
        CaptureError: The model itself fails on the example inputs.
    """
    try:
        return register_containers(_run(model, args, kwargs))
    except CaptureError as error:
        if not changed:
            raise
        raise _ModelRefuses(f"{error!s}{enlargement_note(changed)}") from error.__cause__


def _run(model: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    """Run the model on a copy of an example. Raises CaptureError if the model fails."""
    arguments = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        with preserved_model(model) as private:
            return private(*arguments[0], **arguments[1])
    except Exception as error:
        raise model_error(error) from error
