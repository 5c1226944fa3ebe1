"""The hook `capture`, with the plugins' frontends first and torch.export's last."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from onnxexp._builder.torch_tensor_data import has_data
from onnxexp._capture.captured_program import CapturedProgram, CaptureRefused, make_functional
from onnxexp._capture.foreign_frontend import checked_program
from onnxexp._errors import CaptureError, OnnxExporterError, PluginError
from onnxexp._neutral_graph import TensorType, Value
from onnxexp._plugins.discovery import plugins_for
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.loading import Plugins
from onnxexp._plugins.plugin import Implementation, Plugin
from onnxexp._plugins.read_plugin import read
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.export_context import ExportContext
from onnxexp._request.module_and_forward import is_scripted
from onnxexp._request.options import Options
from onnxexp._request.pytree_leaves import flatten_output_spec
from onnxexp._request.tensor_list import TensorList
from onnxexp._torch_compat import NO_TORCHSCRIPT, untested_torch
from onnxexp._user_warnings import hold_warnings, warn
from onnxexp._version import __version__

_SHOWN = 10
"""How many places are listed in one warning."""
_TORCHSCRIPT = "torchscript"
"""The plugin that traces and scripts."""
_BUILT_IN = {"torch-export": "onnxexp._torch_export.frontend"}
"""The frontends of the core's own distribution, by name: plugins that no configuration or lock switches off."""


def capture(
    plugins: Plugins,
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    context: ExportContext,
) -> CapturedProgram:
    """Capture a model with the first frontend that takes it, as a functional graph.

    Raises CaptureError with each attempt and the reason why it failed.
    """
    warn_once_if_untested()
    if isinstance(model, torch.nn.Module):
        args, kwargs, spec = _dense(args, kwargs, spec, context)
        _check_tensors(model, spec, plugins)
    call = {"model": model, "args": args, "kwargs": kwargs, "spec": spec, "context": context}
    try:
        program, refused = _captured(plugins, context.options, call)
    except CaptureError as error:
        names = _class_namespaces(model) | set(re.findall(r"\b\w+::\w+", str(error)))
        fixes = (plugins_for(names, plugins.off) if names else []) + _device_fixes(model, spec)
        if not fixes:
            raise
        raise CaptureError("\n".join([str(error), *fixes])) from error
    for leaf, output in zip(flatten_output_spec(program.out_spec), program.graph.outputs, strict=True):
        if not isinstance(output, (Value, torch.Tensor)) and holds_tensors(output):
            raise _not_flattened(f"the output {leaf.name}", output, plugins)
    _check_example(program, spec)
    _warn_of_constants(program.constants, refused)
    context.restrictions.update(program.restrictions)
    return program


def _check_example(program: CapturedProgram, spec: DynamicSpec) -> None:
    """Raise CaptureError if axes became one that differ in the user's example.

    A capture may use larger sizes in place of 1, which a model broadcasts.
    """
    seen: dict[str, tuple[int, str]] = {}
    for value, leaf, axes in zip(program.graph.inputs, spec.leaves, spec.axes, strict=False):
        sizes = value.type.sizes if isinstance(value.type, TensorType) else None
        if sizes is None or not isinstance(leaf.value, torch.Tensor):
            continue
        for axis in sorted(axes):
            own = leaf.value.shape[axis], f"axis {axis} of input {leaf.name}"
            (small, where), (large, there) = sorted([seen.setdefault(str(sizes[axis]), own), own])
            if small != large:
                raise CaptureError(
                    f"{where} was asked to be dynamic, but the model fixes it to the size of {there} where it is not {small}, as "
                    "in the example; to fix this, give an example in which the two are equal, or leave the axis static"
                )


@functools.lru_cache(maxsize=None)
def warn_once_if_untested() -> None:
    """Warn in the first export of a process if torch is newer than tested versions."""
    if text := untested_torch():
        warn(text)


def _captured(plugins: Plugins, options: Options, call: Mapping[str, Any]) -> tuple[CapturedProgram, CaptureError | None]:
    """Capture a model, and return torch.export's refusal too if the model was traced."""
    redirections: list[Any] = call["context"].redirections
    before = len(redirections)
    try:
        with hold_warnings() as held:
            program = _first(plugins, options, call)
            if broken := _broken_by_example(program, call["spec"]):
                program = _right_for_example(plugins, options, call, before, held) or program
                _warn_of_example(broken, program)
            return program, None
    except CaptureRefused as error:
        refused = CaptureError(str(error))
        if options.capture != "auto":
            raise refused from None
        del redirections[before:]  # each capture adds its own
        return _traced(plugins, options, call, refused), refused


def _broken_by_example(program: CapturedProgram, spec: DynamicSpec) -> list[str]:
    """List the restrictions that the sizes of the user's example do not meet."""
    leaves = [leaf.value for leaf in spec.leaves]
    return [text for text, allows in program.restrictions.items() if not allows(leaves)]


def _right_for_example(
    plugins: Plugins, options: Options, call: Mapping[str, Any], before: int, held: list[Any]
) -> CapturedProgram | None:
    """Trace a model whose torch.export program is wrong for the user's example.

    torch.export takes a dynamic size of 0 or 1 as larger ones, and a model may branch on it; a trace keeps the branches of
    scripted functions. Returns None, and leaves all as it was, unless the trace is right at all sizes.
    """
    if options.capture != "auto" or not isinstance(call["model"], torch.nn.Module):
        return None
    redirections: list[Any] = call["context"].redirections
    own, used, told = redirections[before:], set(plugins.used), [*held]
    del redirections[before:], held[:]
    with contextlib.suppress(OnnxExporterError):
        traced = _first(plugins, dataclasses.replace(options, capture="trace"), call)
        if not traced.constants and not traced.restrictions:
            return traced
    redirections[before:], held[:] = own, told
    plugins.used.intersection_update(used)
    return None


def _warn_of_example(broken: Sequence[str], program: CapturedProgram) -> None:
    """Warn of restrictions that the user's example does not meet."""
    if not program.restrictions.keys().isdisjoint(broken):
        warn(
            f"the exported model is right only where {' and '.join(broken)}, and the example has other sizes: the model computes "
            "another result for it; to fix this, give an example of these sizes, or write the line that compares for any size"
        )


def _device_fixes(model: Any, spec: DynamicSpec) -> list[str]:
    """Return the fix for a model on the meta device, if its inputs are not there."""
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    if all(map(has_data, tensors)) or not any(
        isinstance(leaf.value, torch.Tensor) and has_data(leaf.value) for leaf in spec.leaves
    ):
        return []
    fix = "pass weights=CHECKPOINT, or inputs on the meta device too with export_params=False"
    return [f"The model is on the meta device, without data, and its inputs are not; to fix this, {fix}"]


def _class_namespaces(model: Any) -> set[str]:
    """List the namespaces of the model's C++ objects' classes, as ``quantized::``."""
    modules = model.modules() if isinstance(model, torch.nn.Module) and not is_scripted(model) else ()
    held = (value for module in modules for value in vars(module).values() if isinstance(value, torch.ScriptObject))
    return {str(each._type()).split(".")[-2] + "::" for each in held}


def _first(plugins: Plugins, options: Options, call: Mapping[str, Any]) -> CapturedProgram:
    """Return the result of the first frontend that takes the model."""
    for implementation in _frontends(plugins):
        program = _result(implementation, options, call)
        if program is None:
            continue
        plugins.used.add(implementation.plugin.name)
        if isinstance(program, CapturedProgram):
            make_functional(program, call["spec"].leaves)
            return program
        call = {**call, "model": program}
    raise CaptureError(_no_frontend(plugins, options, call["model"]))


def _frontends(plugins: Plugins) -> Iterator[Implementation]:
    """Yield the frontends of plugins, then those of the core.

    A trace does not import the latter.
    """
    yield from plugins.implementations("capture")
    yield from _built_in()


@functools.cache
def _built_in() -> tuple[Implementation, ...]:
    """Read the frontends of the core, imported at the first capture."""
    modules = {name: importlib.import_module(module) for name, module in _BUILT_IN.items()}
    plugins = [read(Plugin(name, "onnxexp", __version__, module, own=True)) for name, module in modules.items()]
    return tuple(each for plugin in plugins for each in plugin.implementations)


def _result(
    implementation: Implementation, options: Options, call: Mapping[str, Any]
) -> CapturedProgram | torch.nn.Module | None:
    """Call one frontend.

    A foreign error becomes a PluginError with the hook's place.
    """
    with calling(implementation.plugin, implementation, PluginError, (OnnxExporterError,)):
        program = implementation(options=options, **call)
    if program is not None and not isinstance(program, (CapturedProgram, torch.nn.Module)):
        raise PluginError(f"{implementation} returned {program!r}, which is no CapturedProgram")
    if isinstance(program, CapturedProgram) and not implementation.plugin.own:
        return checked_program(implementation, program, len(call["spec"].leaves))
    return program


def _traced(plugins: Plugins, options: Options, call: Mapping[str, Any], refused: CaptureError) -> CapturedProgram:
    """Trace a model that torch.export has refused."""
    try:
        return _first(plugins, dataclasses.replace(options, capture="trace"), call)
    except CaptureError as error:
        raise CaptureError(f"{refused}\n  torch.jit.trace: {error}".rstrip()) from None


def _no_frontend(plugins: Plugins, options: Options, model: Any) -> str:
    """Describe the failure for a model that no frontend takes, with the fix."""
    if NO_TORCHSCRIPT:
        return f"{NO_TORCHSCRIPT}; to fix this, use capture='export', or install an older torch"
    wanted = "TorchScript" if is_scripted(model) else f"capture={options.capture!r}"
    off = next((status.reason for status in plugins.off if status.found.name == _TORCHSCRIPT), None)
    if any(plugin.name == _TORCHSCRIPT for plugin in plugins.loaded):
        return f"no frontend takes {type(model).__name__} with {wanted}"
    if off is not None:
        return f"{wanted} needs the plugin {_TORCHSCRIPT!r}, which is switched off: {off}; to fix this, switch it on there"
    install = f"pip install onnxexp-plugin-{_TORCHSCRIPT}"
    return f"{wanted} needs the TorchScript frontend, which is not installed; to fix this, run\n  {install}"


def _dense(
    args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec, context: ExportContext
) -> tuple[Sequence[Any], Mapping[str, Any], DynamicSpec]:
    """Make the inputs dense for which a plugin has a form."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    made: dict[int, Any] = {}  # one tensor that is given twice stays one
    for index, leaf in enumerate(spec.leaves):
        form = context.form(leaf.value, leaf.name) if isinstance(leaf.value, torch.Tensor) else None
        if form is not None:
            context.input_forms[index] = form
            flat[index] = made.setdefault(id(leaf.value), form(leaf.value))
    if not made:
        return args, kwargs, spec
    leaves = [dataclasses.replace(leaf, value=value) for leaf, value in zip(spec.leaves, flat, strict=True)]
    return *pytree.tree_unflatten(flat, structure), dataclasses.replace(spec, leaves=tuple(leaves))


def _check_tensors(model: torch.nn.Module, spec: DynamicSpec, plugins: Plugins) -> None:
    """Raise CaptureError for inputs that ONNX lacks and for uninitialized parameters."""
    if detect_fake_mode() is not None:
        raise CaptureError(
            "the export runs inside FakeTensorMode, where tensors have no values; to fix this, leave that mode first"
        )
    for leaf in spec.leaves:
        value = leaf.value
        for tensor in value if isinstance(value, TensorList) else [value] if isinstance(value, torch.Tensor) else ():
            if tensor.is_nested or tensor.is_quantized or tensor.layout != torch.strided:
                kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
                raise CaptureError(f"an input is a {kind} tensor, which ONNX does not have; to fix this, give dense tensors")
        if not isinstance(value, (torch.Tensor, TensorList)) and holds_tensors(value):
            raise _not_flattened(f"the argument {leaf.name}", value, plugins)
    for name, stored in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(stored):
            raise CaptureError(f"{name} is not initialized yet; to fix this, run the model once before it is exported")


def _not_flattened(what: str, value: Any, plugins: Plugins) -> CaptureError:
    text = (
        f"{what} is a {type(value).__name__}, whose tensors would become constants; "
        "to fix this, pass or return the tensors themselves, "
        "or register the class with torch.utils._pytree.register_pytree_node"
    )
    return CaptureError("\n".join([text, *plugins_for([library_of(value)], plugins.off)]))


def _warn_of_constants(constants: Sequence[str], refused: CaptureError | None = None) -> None:
    """Warn of a trace's constants, and of torch.export's failure before it."""
    shown, left = constants[:_SHOWN], len(constants) - _SHOWN
    if refused is None and not shown:
        return
    fixed = "Tracing fixes the branches that the example inputs took, and the Python numbers computed from them"
    lines = [f"{fixed}:", *(f"  {line}" for line in shown)] if shown else []
    if left > 0:
        lines.append(f"  and {left} more places")
    if refused is not None:
        lines = ["torch.export failed, so the model was traced.", *lines, f"Why it failed: {refused}"]
    warn("\n".join(lines))


def holds_tensors(value: Any, depth: int = 4) -> bool:
    """Return whether an object that pytree does not flatten has tensors inside."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, type, ModuleType, FunctionType)) or not depth:
        return isinstance(value, torch.Tensor)
    held = (
        [*value.values()] if isinstance(value, Mapping) else [*value] if isinstance(value, (list, tuple, set, frozenset)) else []
    )
    return any(holds_tensors(each, depth - 1) for each in [*held, *getattr(value, "__dict__", {}).values()])  # numbers have none


def library_of(value: Any) -> str:
    """Name the library of an object's class as a namespace, as ``transformers::``."""
    return f"{type(value).__module__.partition('.')[0]}::"
