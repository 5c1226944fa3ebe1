"""From a model to a neutral graph: the strategies, and why each failed where none works."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from onnxexp.capture.decompose.decomposer import Decomposer
from onnxexp.capture.model_tensors import Parts, restored_buffers
from onnxexp.capture.source_lines import failed, recording
from onnxexp.capture.torch_export.composite_ops import kept_whole
from onnxexp.capture.torch_export.data_dependent_ops import kept_opaque
from onnxexp.capture.torch_export.example_inputs import capturing, enlarged, unmarked
from onnxexp.capture.torch_export.export_errors import explain
from onnxexp.capture.torch_export.exported_program import to_graph, without_vmap, written
from onnxexp.capture.torch_export.guard_warnings import deciding, tell_restrictions
from onnxexp.capture.torch_export.reshape_sizes import reshapes_as_called
from onnxexp.capture.torch_export.symbol_names import check_dynamic, dim_text, symbol_names
from onnxexp.capture.torch_state import TrainingMode, model_mode, quiet_export, torch_mode, transforms_left
from onnxexp.capture.torchscript import Recording, Sizes, read, script, signature_of, trace
from onnxexp.errors import CaptureError
from onnxexp.functionalize import functionalize
from onnxexp.functionalize.dead_code import drop_dead
from onnxexp.graph import Dim, Graph, Node
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.request.io_names import register_dataclasses
from onnxexp.user_warnings import warn

_SHOWN = 10
"""How many of the tracer's warnings are shown."""

__all__ = ["Captured", "as_module", "capture", "convert", "forward_of"]


@dataclasses.dataclass(frozen=True)
class Captured:
    """A captured model.

    Attributes:
        graph: Functional: nothing in it is written in place. Its inputs are the leaves of the example's (args, kwargs).
        decompose: torch's decomposition of one node, see `onnxexp.lowering.lowering.Decompose`.
        in_spec, out_spec: torch's pytree specs of (args, kwargs) and of what the model returns.
    """

    graph: Graph
    decompose: Callable[[Node], Graph | None]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


class Reading(NamedTuple):
    """What a recording says, see `read`. torch's own graph is let go of where it has been read: later that takes far longer."""

    graph: Graph
    sizes: Sizes
    changed: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    warnings: list[str]

    @classmethod
    def of(cls, recording: Recording, spec: DynamicSpec) -> Reading:
        """Raises CaptureError, as `read` does."""
        return cls(*read(recording, spec), recording.in_spec, recording.out_spec, recording.warnings)


class _Function(torch.nn.Module):
    """A callable as a module with the callable's own signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        vars(self)["forward"] = function


def as_module(model: Any) -> torch.nn.Module:
    """The model as a module. Raises CaptureError for what is neither a module nor callable."""
    if isinstance(model, torch.nn.Module):
        return model
    if isinstance(model, torch.jit.ScriptFunction):
        wrapped = _Function(lambda *args, **kwargs: model(*args, **kwargs))
        vars(wrapped.forward)["__signature__"] = signature_of(model.schema)
        vars(wrapped)["scripted"] = model
        return wrapped
    if isinstance(model, type):
        raise CaptureError(f"{model.__name__} is a class: give an instance, {model.__name__}(...)")
    if not callable(model):
        raise CaptureError(f"cannot export {model!r}: it is neither an nn.Module, nor a function, nor an ExportedProgram")
    owner = model if not hasattr(model, "__self__") else model.__self__
    if isinstance(owner, torch.nn.Module):  # a bound method: keep its module, so that parameters are found
        wrapped = _Function(model)
        wrapped.add_module("self", owner)
        return wrapped
    return _Function(model if _has_signature(model) else lambda *args: model(*args))


def forward_of(module: torch.nn.Module) -> Callable[..., Any]:
    """The module's forward, with the parameters that it has: Python does not know those of a scripted one."""
    if not isinstance(module, torch.jit.ScriptModule):
        return module.forward

    if not module._c._has_method("forward"):
        methods = ", ".join(module._c._method_names())
        raise CaptureError(f"the scripted module has no forward, only {methods}; call it in the forward of a module of your own")

    def forward(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    vars(forward)["__signature__"] = signature_of(module._c._get_method("forward").schema)
    return forward


def _has_signature(function: Callable[..., Any]) -> bool:
    """Functions written in C, such as torch.relu, have none."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def capture(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    training: TrainingMode,
    strategy: str = "auto",
) -> ExportedProgram | Recording | Reading:
    """The model, captured as `strategy` says: "auto", "export", "trace" or "script". What is scripted
    already is taken as it is.

    Raises CaptureError that names what was tried and why it failed.
    """
    parts = Parts.of(model)
    _check_tensors(parts, spec)
    if strategy == "script" or isinstance(model, torch.jit.ScriptModule) or "scripted" in vars(model):
        with torch_mode(), model_mode(parts.modules.values(), training):
            return script(model, args, kwargs, spec)
    reason = None
    if strategy != "trace":
        try:
            return _through_export(parts, args, kwargs, spec, training)
        except CaptureError as error:
            if strategy != "auto":
                raise
            reason = error
    try:
        with torch_mode(), model_mode(parts.modules.values(), training):
            reading = Reading.of(trace(parts, args, kwargs, spec), spec)  # at once, in the mode that torch is in anyway
    except CaptureError as error:
        if reason is None:
            raise
        raise CaptureError(f"{reason}\n  torch.jit.trace: {error}".rstrip()) from None
    _tell_fixed(reading.warnings, reason)
    return reading


def _check_tensors(parts: Parts, spec: DynamicSpec) -> None:
    """Raises CaptureError for tensors that ONNX has no form of."""
    for leaf in spec.leaves:
        tensor = leaf.value
        if isinstance(tensor, torch.Tensor) and (tensor.is_nested or tensor.is_quantized or tensor.layout != torch.strided):
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
            raise CaptureError(f"an input is a {kind} tensor, which ONNX does not have; cure: give dense tensors")
    for name, stored in parts.state.items():
        if is_lazy(stored):
            raise CaptureError(f"{name} is not initialized yet; cure: run the model once before it is exported")


def _tell_fixed(told: list[str], reason: CaptureError | None = None) -> None:
    """Warn of what tracing has made a constant of, and of the reason why it was traced where the user did not ask for it."""
    shown, left = told[:_SHOWN], len(told) - _SHOWN
    if reason is None and not shown:
        return
    fixed = "Tracing keeps the branches that the example inputs took, and the Python numbers that came of them"
    lines = [f"{fixed}:" if shown else f"{fixed}.", *(f"  {line}" for line in shown)]
    if left > 0:
        lines.append(f"  and {left} more places")
    if reason is not None:
        lines = ["torch.export failed, so the model was traced.", *lines, f"Why it failed: {reason}"]
    warn("\n".join(lines))


def _through_export(
    parts: Parts, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, training: TrainingMode
) -> ExportedProgram:
    """The model through torch.export: non-strict, then strict."""
    model = parts.model
    failures: dict[str, list[str]] = {}
    with (
        torch_mode(),
        model_mode(parts.modules.values(), training),
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
    # torch's tracebacks through its own tracer are long and tell the user nothing: `reasons` says what matters of them
    raise CaptureError(f"the model could not be captured:\n{lines}") from None


def _export(model: torch.nn.Module, args: Any, kwargs: Any, spec: DynamicSpec, strict: bool) -> ExportedProgram:
    with (
        transforms_left(),
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
        raise failed(error, f"the model itself fails on the example inputs{note}") from error
    return register_dataclasses(result)


def convert(program: ExportedProgram | Recording | Reading, spec: DynamicSpec) -> Captured:
    """The captured program as a functional neutral graph.

    Raises CaptureError where an axis that was asked to be dynamic came out static.
    """
    if isinstance(program, Recording):
        with torch_mode():
            program = Reading.of(program, spec)
    if isinstance(program, Reading):
        known = program.sizes
        _functional(program.graph, program.changed)
        decomposer = Decomposer(lambda: known.mode, known.texts, known.text)
        return Captured(program.graph, decomposer, program.in_spec, program.out_spec)
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
    _functional(graph, written(program))
    decomposer = Decomposer(lambda: fake_mode, sizes, text)
    assert program.call_spec.in_spec is not None and program.call_spec.out_spec is not None
    return Captured(graph, decomposer, program.call_spec.in_spec, program.call_spec.out_spec)


def _functional(graph: Graph, written_otherwise: Sequence[str]) -> None:
    """Functionalize a graph, with a warning for what it writes that outlives a call."""
    report = functionalize(graph)
    changed = [*report.inputs, *report.params, *written_otherwise]
    if changed:
        warn(
            f"the forward writes into {', '.join(changed)}; an ONNX graph keeps no state: its outputs are right, "
            "but what is written is not kept from one call to the next"
        )
    drop_dead(graph)
