"""torch.export's frontend: a model, or an ExportedProgram as given, to a neutral graph."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp.capture.example_inputs import capturing, enlarged, unmarked
from onnxexp.capture.frontend import CapturedProgram, make_functional
from onnxexp.capture.model_tensors import restored_buffers
from onnxexp.capture.reshape_sizes import reshapes_as_called
from onnxexp.capture.size_text import dim_text
from onnxexp.capture.source_lines import model_error, recording
from onnxexp.capture.torch_export.composite_ops import kept_whole
from onnxexp.capture.torch_export.data_dependent_ops import kept_opaque
from onnxexp.capture.torch_export.decompose.decomposer import Decomposer
from onnxexp.capture.torch_export.export_errors import explain
from onnxexp.capture.torch_export.exported_program import to_graph, without_vmap, written
from onnxexp.capture.torch_export.guard_warnings import deciding, tell_restrictions
from onnxexp.capture.torch_export.symbol_names import check_dynamic, symbol_names
from onnxexp.capture.torch_state import model_mode, quiet_export, torch_mode, unwind_functorch
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim
from onnxexp.request.call_tree import register_dataclasses
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.request.model import is_scripted
from onnxexp.request.options import Options
from onnxexp.request.training_mode import TrainingMode

__all__ = ["CaptureRefused", "capture", "export_program", "from_exported"]


class CaptureRefused(CaptureError):
    """torch.export cannot capture the model."""


def capture(
    model: torch.nn.Module | ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, options: Options
) -> CapturedProgram | None:
    """Capture a model through torch.export; None where TorchScript was asked for, or given.

    Raises CaptureRefused where torch.export fails, CaptureError for what has no place in a neutral graph.
    """
    if isinstance(model, ExportedProgram):
        return from_exported(model, spec)
    if options.capture not in ("auto", "export") or is_scripted(model):
        return None
    return from_exported(export_program(model, args, kwargs, spec, options.training), spec)


def from_exported(program: ExportedProgram, spec: DynamicSpec) -> CapturedProgram:
    """Convert an ExportedProgram. Raises CaptureError where an axis that was asked to be dynamic came out static."""
    program = without_vmap(program)
    check_dynamic(program, spec)
    names = symbol_names(program, spec)
    fakes = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    fake_mode = detect_fake_mode(fakes) or FakeTensorMode()
    tell_restrictions(fake_mode.shape_env, program, spec, names)
    sizes: dict[str, Any] = {}

    def text(size: Any) -> Dim:
        readable = dim_text(size, names)
        if isinstance(readable, str):
            sizes.setdefault(readable, size)
        return readable

    graph = to_graph(program, text)
    make_functional(graph, written(program))
    decomposer = Decomposer(lambda: fake_mode, sizes, text)
    assert program.call_spec.in_spec is not None and program.call_spec.out_spec is not None
    return CapturedProgram(graph, decomposer, program.call_spec.in_spec, program.call_spec.out_spec)


def export_program(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, training: TrainingMode
) -> ExportedProgram:
    """Run torch.export on a model: non-strict, then strict. Raises CaptureRefused with the reasons of both."""
    failures: dict[str, list[str]] = {}
    with (
        torch_mode(),
        model_mode(model.modules(), training),
        unmarked(spec),
        capturing(model, args, kwargs, spec) as (example, example_kwargs),
    ):
        for strict in (False, True):
            run = functools.partial(_export, model, example, example_kwargs, spec, strict)
            try:
                return run()
            except Exception as error:  # noqa: BLE001 - torch.export raises anything, the user's own exceptions too
                reason = error
                if not strict and _learn_outputs(model, example, example_kwargs, spec):
                    try:
                        return run()
                    except Exception as again:  # noqa: BLE001 - as above
                        reason = again
                failures.setdefault(explain(reason, spec, run), []).append(f"torch.export (strict={strict})")
    reasons = [f"{' and '.join(strategies)}: {reason}" for reason, strategies in failures.items()]
    lines = "\n".join(f"  {line}".replace("\n", "\n    ") for line in reasons)
    # torch's tracebacks through its own tracer are long and name nothing of the user's
    raise CaptureRefused(f"the model could not be captured:\n{lines}") from None


def _export(model: torch.nn.Module, args: Any, kwargs: Any, spec: DynamicSpec, strict: bool) -> ExportedProgram:
    with (
        unwind_functorch(),
        quiet_export(),
        kept_whole(),
        kept_opaque(references=not strict),
        recording(),
        deciding(),
        reshapes_as_called(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # torch's remarks about its own internals
        return torch.export.export(model, args, kwargs, dynamic_shapes=spec.shapes, strict=strict)


def _learn_outputs(model: torch.nn.Module, args: Any, kwargs: Any, spec: DynamicSpec) -> bool:
    """Run the model once and teach torch's pytree the classes that it returns; True where that may cure the failure.

    Raises CaptureError where the model itself fails on the example inputs.
    """
    arguments = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        with restored_buffers(model):
            result = model(*arguments[0], **arguments[1])
    except Exception as error:
        changed = enlarged(spec)
        note = f" (dynamic axes of size 0 and 1 were enlarged for it: {', '.join(changed)})" if changed else ""
        raise model_error(error, f"the model itself fails on the example inputs{note}") from error
    return register_dataclasses(result)
