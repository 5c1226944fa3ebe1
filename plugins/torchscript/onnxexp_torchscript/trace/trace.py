"""Tracing: a model run once under torch's tracer."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.nn.modules import transformer
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp.frontends import (
    DynamicSpec,
    TensorList,
    call_preserved,
    model_error,
    redirected,
    register_containers,
    replace_attributes,
    restored_state,
    run_fitting,
    warn_of_kept_tensors,
)
from onnxexp_torchscript.jit.call_repair import broadcast_writes, fit
from onnxexp_torchscript.jit.inlined_calls import inline
from onnxexp_torchscript.jit.rnn_cells import whole_cells
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.trace.assigned_tensors import assigned_tensors, with_assigned_data
from onnxexp_torchscript.trace.inplace_size_arithmetic import immutable_sizes
from onnxexp_torchscript.trace.made_constants import made_constants, made_of_arrays
from onnxexp_torchscript.trace.numbers_in_scripted_calls import numbers_kept
from onnxexp_torchscript.trace.random_state import RandomState
from onnxexp_torchscript.trace.scriptable_replacements import compilable
from onnxexp_torchscript.trace.size_functions import size_functions
from onnxexp_torchscript.trace.size_lists import size_lists
from onnxexp_torchscript.trace.size_rounding import size_rounding, traced_items
from onnxexp_torchscript.trace.traced_branches import Branch, recorded_branches, traced_cond
from onnxexp_torchscript.trace.traced_strides import traced_strides
from onnxexp_torchscript.trace.tracer_warnings import fixed_places, further_attempts, recorded_warnings, tracer_warnings
from onnxexp_torchscript.trace.unrecorded_writes import drop_kept_writes, keep_writes, recorded_resizing
from onnxexp_torchscript.trace.written_parameters import restored_parameters

_ROOT = "model"
_KEPT_BYTES = (32 << 20) - (8 << 10)
"""The largest block that glibc learns from, with room for its header."""
_FIX = 'write that line with operators that torch.jit.trace records, or use capture="script"'
_COMPILED = "dynamo-optimized function"
_COMPILED_FIX = 'use capture="export", which records torch.while_loop and the like, or call the function that torch.compile wraps'


Rows: TypeAlias = Iterable[tuple[Any, str, Any]]
"""What is replaced: (owner, name, replacement), an attribute, or a function of torch as in `redirected`."""


@dataclasses.dataclass
class Recording:
    """A recorded TorchScript graph, with its inputs and outputs.

    Attributes:
        graph: Inlined. Its first inputs are the leaves in `leaves`, then come `state`'s tensors.
        leaves: Index of the example's leaf for each input; the others are constants.
        example: Every leaf that was captured with.
        state: The parameters and buffers that are inputs of the graph, by name, in order.
        module: The ScriptModule that the graph's ``self`` is, where it has one.
        returned: The model's results, flattened: True for each leaf that is an output of the graph, else the constant in
            `constants`.
        places: Where the nodes come from.
        warnings: The tracer's warnings, each with the user's line.
        traced: Whether the types in the graph are those of a run on the example.
        signature: The parameters of the program, where the inputs of the graph are those, not the leaves.
        functions: Functions that must live as long as the graph that calls them.
        again: Traces the model once more, with another example and attributes replaced.
        random: The state of the random generators at the trace.
        indexed: Whether Python has read a size as an index. The tracer does not warn of that.
        branches: The conditions on sizes, which are the first outputs of the graph.
        attempts: The options of further traces, which fix less. The first trace suffices for most models.
    """

    graph: Any
    leaves: list[int]
    example: list[Any]
    state: dict[str, torch.Tensor]
    module: Any
    constants: list[Any]
    returned: list[bool]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    places: Places
    warnings: list[str]
    traced: bool = True
    signature: inspect.Signature | None = None
    functions: list[Any] = dataclasses.field(default_factory=list)
    again: Callable[..., Trace] | None = None
    random: RandomState = dataclasses.field(default_factory=RandomState)
    indexed: bool = False
    branches: Sequence[Branch] = ()
    attempts: Sequence[Mapping[str, Any]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _ModelTensors:
    """A model with its modules by path and its tensors by name, no duplicates."""

    model: torch.nn.Module
    modules: dict[str, torch.nn.Module]
    state: dict[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Trace:
    """One trace: the graph, its ScriptModule, the flattened result, and the branches."""

    graph: Any
    module: Any
    returned: tuple[list[Any], pytree.TreeSpec]
    branches: Sequence[Branch] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Noted:
    """Side effects of a trace.

    Attributes:
        warnings: All warnings.
        assigned: The attributes that the forward assigns tensors to.
        indices: The tensors that become indices.
    """

    warnings: list[Any] = dataclasses.field(default_factory=list)
    assigned: set[str] = dataclasses.field(default_factory=set)
    indices: list[Any] = dataclasses.field(default_factory=list)


class _Flat:
    """The model as a function from tensors to tensors.

    Attributes:
        example, leaves, in_spec: The leaves of the example's call, the indices of those passed as tensors, the pytree spec.
        returned: The flattened result and its pytree spec; None before the run.
        kept_writes: The number of outputs that `keep_writes` has added.
        branches: The recorded branches, whose conditions are outputs, too.
    """

    def __init__(
        self,
        parts: _ModelTensors,
        example: list[Any],
        leaves: list[int],
        in_spec: pytree.TreeSpec,
        redirections: Rows,
        branches: list[Branch],
    ) -> None:
        self.model, self._modules = parts.model, parts.modules.values()
        self._redirections = redirections
        self.example = example
        self.leaves = leaves
        self.in_spec = in_spec
        self.returned: tuple[list[Any], pytree.TreeSpec] | None = None
        self.kept_writes = 0
        self.branches = branches

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        flat = list(self.example)
        for index, tensor in zip(self.leaves, tensors, strict=False):
            flat[index] = tensor
        args, kwargs = pytree.tree_unflatten(flat, self.in_spec)
        attributes = {id(each) for part in self._modules for each in vars(part).values() if isinstance(each, torch.Tensor)}
        with redirected(self._redirections) as redirection:
            result = with_assigned_data(self.model(*args, **kwargs), redirection.data, self._modules)
        graph = torch._C._get_tracing_state().graph()
        fit(graph)
        self.kept_writes = keep_writes(graph)
        for branch in self.branches:
            graph.registerOutput(branch.condition)
        register_containers(result)
        self.returned = pytree.tree_flatten(result)
        returned = tuple(leaf for leaf in self.returned[0] if isinstance(leaf, torch.Tensor))
        for tensor in returned:
            if id(tensor) in attributes:  # make it a constant; any other without a trace may depend on the inputs
                torch._C._get_value_trace(tensor)  # type: ignore[attr-defined] # defined in C++
        return returned[0] if len(returned) == 1 else returned


class _Module(torch.nn.Module):
    """A `_Flat` as a module."""

    def __init__(self, flat: _Flat) -> None:
        super().__init__()
        self.model = flat.model
        vars(self)["flat"] = flat

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        flat: _Flat = vars(self)["flat"]
        return flat(*tensors)


def trace(
    model: torch.nn.Module,
    private: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    redirections: Rows,
    conversions: Rows = (),
    branching: bool = False,
) -> Recording:
    """Trace `private`, a copy of the model, on the example.

    During the trace, functions of torch are redirected, and the attributes in `conversions` replaced. With `branching`, the
    conditions on sizes are recorded, too.

    Raises CaptureError where the model fails.
    """
    parts = _ModelTensors(private, dict(private.named_modules()), _state(private))
    flat, in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    leaves = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) or index in spec.scalars]
    functions: list[Any] = []
    random = RandomState()

    def traced(example: list[Any], noted: _Noted, replaced: Rows = ()) -> Trace:
        branches: list[Branch] = []
        # in this order: the test of a branch calls the function that `replaced` may have put there
        rows = [*_redirections(), *replaced, *(recorded_branches(branches) if branching else ()), *redirections]
        flat = _Flat(parts, example, leaves, in_spec, rows, branches)
        return _traced(flat, parts, noted, [*_attributes(functions), *conversions])

    def again(example: list[Any], *, same_random: bool, replaced: Rows = ()) -> Trace:
        with random.again() if same_random else RandomState().again():
            return traced(example, _Noted(), replaced)

    noted = _Noted()

    def run(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Trace:
        return traced(pytree.tree_leaves((tuple(args), dict(kwargs))), noted, [_noted_indices(noted.indices)])

    try:
        example, first = run_fitting(run, functools.partial(run_example, model), args, kwargs, spec)
    finally:
        warn_of_kept_tensors(private, args, kwargs, noted.assigned)
        recorded = tracer_warnings(noted.warnings)
    found, out_spec = first.returned
    returned = [isinstance(leaf, torch.Tensor) for leaf in found]
    constants = [None if tensor else leaf for leaf, tensor in zip(found, returned, strict=True)]
    places = Places(parts.modules, _ROOT if first.module is not None else "")
    flat, state = pytree.tree_leaves(example), {} if first.module is not None else _state(model)
    return Recording(
        first.graph, leaves, flat, state, first.module, constants, returned, in_spec, out_spec, places,
        fixed_places(recorded), functions=functions, again=again, random=random, indexed=bool(noted.indices),
        branches=first.branches, attempts=[] if conversions or branching else further_attempts(recorded),
    )  # fmt: skip


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _traced(flat: _Flat, parts: _ModelTensors, noted: _Noted, attributes: Rows) -> Trace:
    """Trace a model and restore its state.

    Raises CaptureError where the model fails.
    """
    failure: Exception | None = None
    try:
        with (
            recorded_warnings(noted.warnings),
            compilable(attributes) as replacements,
            replace_attributes(replacements),
            replace_attributes(_compiled(parts.modules.values())),
            immutable_sizes(),
            restored_state(flat.model),
            assigned_tensors(parts.modules, noted.assigned),
            restored_parameters(parts.state),
        ):
            graph, module = _run(flat, parts)
    except CaptureError as error:
        raise model_error(error) from error
    except Exception as error:  # noqa: BLE001 - torch.jit.trace passes on any exception of the model
        failure = error
    if failure is not None:  # after `except`: the tracer's traceback is no context of an error of the model itself
        run_example(parts.model, *pytree.tree_unflatten(flat.example, flat.in_spec))
        fix = _COMPILED_FIX if _COMPILED in str(failure) else _FIX
        raise model_error(failure, "the model fails while it is traced", fix) from failure
    assert flat.returned is not None
    return Trace(graph, module, flat.returned, flat.branches)


def _cloned(leaf: torch.Tensor | TensorList) -> torch.Tensor | list[torch.Tensor]:
    return list(map(torch.clone, leaf)) if isinstance(leaf, TensorList) else leaf.clone()


def run_example(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], *reason: str) -> Any:
    """Run the model on a copy of the example.

    Raises CaptureError where it fails. `reason` describes the failure and its fix where the model is not at fault.
    """
    arguments = pytree.tree_map_only((torch.Tensor, TensorList), _cloned, (tuple(args), dict(kwargs)))
    try:
        return call_preserved(model, *arguments)
    except Exception as error:
        raise model_error(error, *reason) from error


def _run(flat: _Flat, parts: _ModelTensors) -> tuple[Any, Any]:
    """Trace the model; return graph and ScriptModule.

    Without scripted parts, parameters and buffers are inputs of the graph, so that torch need not create a ScriptModule.
    """
    leaves = (flat.example[index] for index in flat.leaves)  # each gets a tensor of its own, which the forward may write into
    inputs = [leaf.clone() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves]
    module = None
    _reuse_freed_memory()
    try:
        if any(isinstance(part, torch.jit.ScriptModule) for part in parts.modules.values()):
            graph, module = _by_module(flat, inputs)
        else:
            torch.jit._trace._trace_module_map = {part: path for path, part in parts.modules.items()}
            given = [*inputs, *parts.state.values()]
            graph, _ = torch._C._create_graph_by_tracing(flat, given, lambda _: "", False, False)
    finally:
        torch.jit._trace._trace_module_map = None
    inline(graph)
    drop_kept_writes(graph, flat.kept_writes)
    broadcast_writes(graph)
    return graph, module


@functools.cache
def _reuse_freed_memory() -> None:
    """Let the C library keep the memory of freed tensors.

    Else the kernel clears new pages for the next ones. glibc keeps twice the largest block that was ever freed. With this one,
    traces of SqueezeNet, ResNet-50 and DenseNet-121 take 4 to 7 % less time.
    """
    torch.empty(_KEPT_BYTES, dtype=torch.uint8)


def _by_module(flat: _Flat, inputs: list[torch.Tensor]) -> tuple[Any, Any]:
    """Trace a model with scripted parts, as a ScriptModule."""
    whole = _Module(flat)
    for module in whole.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            module.training = flat.model.training if module is whole else module.training
    traced: Any = torch.jit.trace(whole, tuple(inputs), check_trace=False, strict=False)  # type: ignore[no-untyped-call]
    return traced.graph.copy(), traced


def _length(of: Any, /) -> Any:
    """Return ``len`` of a traced tensor as a traced number, ``x.size(0)``."""
    return of.size(0) if isinstance(of, torch.Tensor) and of.dim() and torch._C._is_tracing() else _len(of)


def _noted_indices(read: list[Any]) -> tuple[Any, str, Callable[..., Any]]:
    """Append to `read` each tensor of a trace that becomes an index."""

    def noted(original: Callable[..., int], tensor: torch.Tensor) -> int:
        if torch._C._is_tracing():
            read.append(tensor)
        return original(tensor)

    return torch.Tensor, "__index__", noted


def _redirections() -> Iterator[tuple[Any, str, Any]]:
    """Iterate over the functions of torch that are redirected while a model is traced."""
    yield from (*made_constants(), *size_lists(), *traced_items(), *traced_strides(), *whole_cells(), *recorded_resizing())


def _attributes(functions: list[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Iterate over the attributes that are replaced while a model is traced.

    No mode for functions sees their calls.
    """
    yield from (*_REPLACED, made_of_arrays(), *size_rounding(), *size_functions(), *traced_cond(), numbers_kept(functions))


def _compiled(modules: Iterable[torch.nn.Module]) -> Iterator[tuple[Any, str, Any]]:
    """Iterate over replacements of compiled calls, which the tracer refuses."""
    for module in modules:
        call = vars(module).get("_compiled_call_impl")
        if call is not None and "_torchdynamo_orig_callable" in vars(call):
            yield module, "_compiled_call_impl", None


_len = builtins.len
_REPLACED: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (builtins, "len", _length),
    # `TransformerEncoder` looks into its mask for whether it is the causal one, only to choose a faster kernel
    (transformer, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: bool(is_causal)),
)
"""Replacements in Python and torch while a model is traced."""
