"""Running a model once under torch's tracer: the graph of what it did, and what the tracer warned of."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import inspect
import linecache
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules import transformer
from torch.utils import _pytree as pytree

from onnxexp.capture.dynamic import DynamicSpec
from onnxexp.capture.examples import enlarge
from onnxexp.capture.sources import failed
from onnxexp.capture.torchscript.fitting import fit
from onnxexp.capture.torchscript.places import Places
from onnxexp.capture.torchscript.scripted_calls import numbers_kept
from onnxexp.capture.torchscript.whole import cells_kept_whole
from onnxexp.errors import CaptureError
from onnxexp.names import register_dataclasses

__all__ = ["Recording", "trace"]

_ROOT = "model"


@dataclasses.dataclass
class Recording:
    """A TorchScript graph, and what stands for its inputs and outputs.

    Attributes:
        graph: Inlined. Its first inputs are the leaves in `leaves`, then come `state`'s tensors.
        leaves: Index of the example's leaf for each input; the others are constants.
        example: Every leaf that was captured with.
        state: The parameters and buffers that are inputs of the graph, by name, in order.
        module: The ScriptModule that the graph's ``self`` is, where it has one.
        returned: What the model returned, flattened: True for each leaf that is an output of the graph, else the constant in
            `constants`.
        places: Where the nodes come from.
        warnings: What the tracer warned of, each with the user's line.
        traced: Whether the types in the graph are those of a run on the example.
        signature: The parameters of the program, where the inputs of the graph are those, not the leaves.
        functions: What must live as long as the graph that calls it.
        result: What reading the graph gave, where that has been done.
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
    result: Any = None


class _Flat(torch.nn.Module):
    """The model as a module from tensors to tensors; what else it takes and returns is kept beside it."""

    def __init__(self, model: torch.nn.Module, example: list[Any], leaves: list[int], in_spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.model = model
        vars(self)["call"] = (example, leaves, in_spec)
        vars(self)["result"] = []
        vars(self)["fits"] = False

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        example, leaves, in_spec = vars(self)["call"]
        flat = list(example)
        for index, tensor in zip(leaves, tensors, strict=False):
            flat[index] = tensor
        args, kwargs = pytree.tree_unflatten(flat, in_spec)
        result = self.model(*args, **kwargs)
        register_dataclasses(result)
        found, spec = pytree.tree_flatten(result)
        vars(self)["result"][:] = [[None if isinstance(leaf, torch.Tensor) else leaf for leaf in found], spec]
        vars(self)["tensors"] = [isinstance(leaf, torch.Tensor) for leaf in found]
        if vars(self)["fits"]:
            fit(torch._C._get_tracing_state().graph())
        return tuple(leaf for leaf in found if isinstance(leaf, torch.Tensor))


def trace(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec) -> Recording:
    """The model, run once on the example. Raises CaptureError where the model fails or returns no tensor."""
    args, kwargs = enlarge(args, kwargs, spec)
    flat, in_spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    leaves = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) or index in spec.scalars]
    flatten = _Flat(model, flat, leaves, in_spec)
    state = _state(model)
    recorded: list[Any] = []
    try:
        with (
            _collected(recorded),
            _quiet_transformer(),
            _traced_lengths(),
            _immutable_sizes(),
            numbers_kept() as functions,
            cells_kept_whole(),
        ):
            graph, module = _run(flatten, leaves, state)
    except CaptureError:
        raise
    except Exception as error:
        raise failed(error, "the model fails while it is traced") from error
    torch._C._jit_pass_inline(graph)
    constants, out_spec = vars(flatten)["result"]
    modules = {path: type(module).__name__ for path, module in model.named_modules() if path}
    places = Places(modules, _ROOT if module is not None else "")
    return Recording(
        graph, leaves, flat, {} if module is not None else state, module, constants, vars(flatten)["tensors"], in_spec, out_spec,
        places, _told(recorded), functions=functions,
    )  # fmt: skip


def _run(flat: _Flat, leaves: list[int], state: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    """The graph of a run, and the ScriptModule that it takes where it takes one."""
    try:
        return _run_once(flat, leaves, state)
    except RuntimeError:
        if not vars(flat)["result"]:
            raise
        vars(flat)["fits"] = True  # the model ran through: what failed is the tracer, on a call that it cannot write down
        return _run_once(flat, leaves, state)


def _run_once(flat: _Flat, leaves: list[int], state: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    """As `_run`. What the model writes into its buffers is undone."""
    example = vars(flat)["call"][0]
    inputs = [_input(example[index]) for index in leaves]
    before = {name: tensor.clone() for name, tensor in flat.model.named_buffers()}
    try:
        if any(isinstance(module, torch.jit.ScriptModule) for module in flat.model.modules()):
            return _by_module(flat, inputs)
        return _by_values(flat, inputs, state), None
    finally:
        for name, tensor in flat.model.named_buffers():
            if name in before and before[name].shape == tensor.shape:
                tensor.detach().copy_(before[name])


def _input(leaf: Any) -> torch.Tensor:
    """A tensor of its own for each input; numbers that are dynamic become 0-d tensors."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone()  # the forward may write into it
    return torch.tensor(leaf)


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, each once."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def _by_values(flat: _Flat, inputs: list[torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
    """The flat graph of the values, the state being inputs: torch makes no ScriptModule of the model, which takes long."""
    paths = {module: path for path, module in flat.model.named_modules()}
    torch.jit._trace._trace_module_map = paths
    try:
        graph, _ = torch._C._create_graph_by_tracing(
            flat.forward, [*inputs, *state.values()], lambda value: "", False, False, None, []
        )
    finally:
        torch.jit._trace._trace_module_map = None
    return graph


def _by_module(flat: _Flat, inputs: list[torch.Tensor]) -> tuple[Any, Any]:
    """The graph of a ScriptModule made of the model: what it takes to trace a model with scripted parts."""
    for module in flat.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            module.training = flat.model.training if module is flat else module.training
    traced: Any = torch.jit.trace(flat, tuple(inputs), check_trace=False, strict=False)  # type: ignore[no-untyped-call]
    return traced.graph.copy(), traced


@contextlib.contextmanager
def _quiet_transformer() -> Iterator[None]:
    """`TransformerEncoder` looks into its mask for whether it is the causal one, only to choose a faster kernel."""
    detect: Callable[..., Any] = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = detect


@contextlib.contextmanager
def _traced_lengths() -> Iterator[None]:
    """Inside, ``len(x)`` of a tensor is what ``x.size(0)`` is: the tracer's number, which Python's own `len` cannot give."""
    original = builtins.len

    def length(of: Any, /) -> Any:
        return of.size(0) if isinstance(of, torch.Tensor) and of.dim() and torch._C._is_tracing() else original(of)

    builtins.len = length
    try:
        yield
    finally:
        builtins.len = original


_IN_PLACE = {
    "__iadd__": operator.add,
    "__isub__": operator.sub,
    "__imul__": operator.mul,
    "__ifloordiv__": operator.floordiv,
    "__itruediv__": operator.truediv,
    "__imod__": operator.mod,
}


@contextlib.contextmanager
def _immutable_sizes() -> Iterator[None]:
    """Inside, ``n += 2`` of a size gives a new number, as Python's do: the tracer would change every other name of it too."""
    before = {name: vars(torch.Tensor).get(name) for name in _IN_PLACE}
    for name, function in _IN_PLACE.items():
        setattr(torch.Tensor, name, _unless_number(getattr(torch.Tensor, name), function))
    try:
        yield
    finally:
        for name, own in before.items():
            if own is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, own)


def _unless_number(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: torch.Tensor, other: Any) -> Any:
        return function(self, other) if torch._C._is_tracing() and _is_traced_number(self) else original(self, other)

    return call


def _is_traced_number(tensor: torch.Tensor) -> bool:
    """Whether a 0-d tensor is a size, or computed from sizes alone."""
    if tensor.dim() or tensor.dtype not in (torch.int64, torch.float32):
        return False
    tracer: Any = torch._C
    todo = [tracer._get_value_trace(tensor).node()]
    found = False
    for _ in range(64):
        if not todo:
            return found
        node = todo.pop()
        if node.kind() == "prim::NumToTensor":
            found = True
        elif node.kind() != "prim::Constant":
            if node.kind() == "prim::Param" or not str(node.kind()).startswith("aten::"):
                return False
            todo += [value.node() for value in node.inputs()]
    return False


@contextlib.contextmanager
def _collected(into: list[Any]) -> Iterator[None]:
    """Put the tracer's warnings into a list; those of torch.jit being deprecated are dropped, all others given on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, torch.jit._trace.TracerWarning):
            into.append(warning)
        elif not issubclass(warning.category, (DeprecationWarning, FutureWarning)):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _told(recorded: Sequence[Any]) -> list[str]:
    told: dict[str, None] = {}
    for warning in recorded:
        text = str(warning.message).partition(". ")[0].partition(" might cause")[0]
        code = linecache.getline(warning.filename, warning.lineno).strip()
        if code.startswith("if ") and linecache.getline(warning.filename, warning.lineno + 1).strip().startswith("raise "):
            continue  # a check, which the example has passed
        told[f'{text} at File "{warning.filename}", line {warning.lineno}: {code}'] = None
    return list(told)
