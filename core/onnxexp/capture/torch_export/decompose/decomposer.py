"""torch's own decompositions, for one node at a time.

Decomposing the whole program would cost more than capturing it and would take apart what plugins lower well; so only a
node that no plugin claims comes here, and only until claimed operators are left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._decomp import global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils._sympy.functions import Mod, PythonMod

from onnxexp.capture.reshape_sizes import reshapes_as_called
from onnxexp.capture.shape_env_snapshot import clear_caches, restore, snapshot
from onnxexp.capture.torch_export.decompose.op_recorder import META, Recorder
from onnxexp.capture.torch_export.fake_values import flat
from onnxexp.capture.torch_state import silence_torch_loggers, torch_mode
from onnxexp.errors import CaptureError
from onnxexp.functionalize import functionalize
from onnxexp.functionalize.dead_code import drop_dead
from onnxexp.graph import Dim, Graph, Node, ScalarType, TensorType, Type, Value
from onnxexp.torch_ops.schemas import overload

__all__ = ["Decomposer"]


class Decomposer:
    """torch's decompositions of nodes, under the capture's fake mode; equal calls are decomposed once.

    `fake_mode` returns the mode, and is called only if a decomposition needs it. `sizes` maps the readable text of each symbolic
    size to its symbolic number; `dim_text` returns the text of a size.
    """

    def __init__(self, fake_mode: Callable[[], FakeTensorMode], sizes: Mapping[str, Any], dim_text: Callable[[Any], Dim]) -> None:
        self._mode = fake_mode
        self._sizes = sizes
        self._dim_text = dim_text
        self._known: dict[str, Graph | None] = {}

    def __call__(self, node: Node) -> Graph | None:
        """Decompose a node: a graph whose inputs are `node.inputs()` in order; None if torch has no decomposition."""
        key = _key(node)
        if key not in self._known:
            self._known[key] = self._decompose(node)
        return self._known[key]

    def _decompose(self, node: Node) -> Graph | None:
        op = overload(node.op)
        types = [value.type for value in node.inputs()]
        if op is None or any(isinstance(each, TensorType) and None in (each.sizes, each.dtype) for each in types):
            return None
        ways = [self._on_meta, self._on_fakes] if all(map(_is_static, types)) else [self._for_any_size]
        attempts = (way(op, function, node) for function in _decompositions(op) for way in ways)
        return next((graph for graph in attempts if graph is not None), None)

    def _on_meta(self, op: OpOverload, function: Callable[..., Any], node: Node) -> Graph | None:
        """With sizes that are all known: without torch's fake mode, whose bookkeeping takes several times as long."""
        with torch.inference_mode(False), torch.no_grad():
            tensors = [_meta(value.type) for value in node.inputs()]
            return _recorded(Recorder(self._dim_text, fakes=False), op, function, node, tensors)

    def _on_fakes(self, op: OpOverload, function: Callable[..., Any], node: Node) -> Graph | None:
        """What the meta device has no kernel for, or what depends on data."""
        silence_torch_loggers()
        with torch_mode(), self._mode(), reshapes_as_called():
            fakes = [self._fake(value) for value in node.inputs()]
            return _recorded(Recorder(self._dim_text, fakes=True), op, function, node, fakes)

    def _for_any_size(self, op: OpOverload, function: Callable[..., Any], node: Node) -> Graph | None:
        """None also for what holds for the example's sizes only."""
        untold = any(free_unbacked_symbols(self._sizes.get(size, 0)) for size in _symbolic_sizes(node.outputs))
        silence_torch_loggers()
        with torch_mode(), _provisional(self._mode().shape_env, suspect=untold) as baked_in, self._mode(), reshapes_as_called():
            fakes = [self._fake(value) for value in node.inputs()]
            if any(fake is None for fake in fakes):
                return None
            graph = _recorded(Recorder(self._dim_text, fakes=True), op, function, node, fakes)
            return None if graph is None or baked_in() or not _keeps_sizes(node, graph) else graph

    def _fake(self, value: Value) -> Any:
        if isinstance(value.type, ScalarType):
            return self._sizes.get(value.type.expr or "")
        sizes: list[Any] = [size if isinstance(size, int) else self._sizes.get(size) for size in value.type.sizes or ()]
        return None if None in sizes else torch.empty(sizes, dtype=value.type.dtype)


def _recorded(recorder: Recorder, op: OpOverload, function: Callable[..., Any], node: Node, tensors: list[Any]) -> Graph | None:
    """What the function does with these inputs, as a functional graph; None where it fails."""
    graph = recorder.graph
    for tensor, value in zip(tensors, node.inputs(), strict=True):
        graph.inputs.append(Value(value.name, value.type))
        recorder.know(tensor, graph.inputs[-1])
    positional, keywords = _rebuild(op, node.args, iter(tensors))
    try:
        with recorder, enable_python_dispatcher():
            result = function(*positional, **keywords)  # what torch writes in Python takes symbolic sizes
        graph.outputs = list(flat(recorder.value(result)))
    except Exception:  # noqa: BLE001 - a decomposition that fails on tensors without data, with whatever error, is none
        return None
    if any(inner.op == node.op and _key(inner) == _key(node) for inner in graph.nodes):
        return None  # it would never end
    try:
        functionalize(graph)
    except CaptureError:
        return None
    drop_dead(graph)
    return graph


def _sizes(type_: Type | None) -> tuple[Dim, ...]:
    return type_.sizes or () if isinstance(type_, TensorType) else ()


def _meta(type_: Any) -> torch.Tensor:
    return torch.empty(type_.sizes, dtype=type_.dtype, device=META)


def _is_static(type_: Type) -> bool:
    return isinstance(type_, TensorType) and all(isinstance(size, int) for size in _sizes(type_))


@contextlib.contextmanager
def _provisional(env: ShapeEnv | None, *, suspect: bool) -> Iterator[Callable[[], bool]]:
    """Yields whether a size of the model's inputs has been fixed, or tied to another, since; if so that is undone at the end.

    `suspect`: the capture could not tell all sizes that come out. Then what is decided for the example is no more than that.
    """
    if env is None:
        yield lambda: False
        return
    before = snapshot(env)
    if suspect:
        clear_caches()

    def baked_in() -> bool:
        if suspect and any(_is_of_example(guard.expr) for guard in env.guards):
            return True
        return any(symbol not in before["replacements"] and symbol in env.backed_var_to_val for symbol in env.replacements)

    try:
        yield baked_in
    finally:
        if baked_in():
            restore(env, before)


def _is_of_example(guard: sympy.Basic) -> bool:
    """Whether a condition says what a size is, or what remains of it when it is divided."""
    return (isinstance(guard, sympy.Eq) and any(side.is_number for side in guard.args)) or guard.has(Mod, PythonMod)


def _keeps_sizes(node: Node, graph: Graph) -> bool:
    """False for a decomposition that gives a dynamic size as a number."""
    outputs = (output.type if isinstance(output, Value) else None for output in graph.outputs)
    pairs = zip(outputs, (value.type for value in node.outputs), strict=False)
    sizes = [pair for new, old in pairs for pair in zip(_sizes(new), _sizes(old), strict=False)]
    return all(isinstance(one, str) or isinstance(two, int) for one, two in sizes)


def _symbolic_sizes(values: list[Value]) -> list[str]:
    return [size for value in values for size in _sizes(value.type) if isinstance(size, str)]


def _decompositions(op: OpOverload) -> Iterator[Callable[..., Any]]:
    """What torch itself runs for a composite operator, then the entry of its table of decompositions."""
    if not torch._C._dispatch_has_kernel(op.name()):  # type: ignore[no-untyped-call] # TorchScript's own, such as aten::mul.int
        return
    if op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        yield op.decompose
    listed: Callable[..., Any] | None = global_decomposition_table["post_autograd"].get(op)
    if listed is not None:
        yield listed


def _rebuild(op: OpOverload, args: list[Any], remaining: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call with the traced inputs in the values' places."""

    def fill(arg: Any) -> Any:
        if isinstance(arg, Value):
            return next(remaining)
        return [fill(element) for element in arg] if isinstance(arg, list) else arg

    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for argument, arg in zip(op._schema.arguments, args, strict=True):
        if argument.kwarg_only:
            keywords[argument.name] = fill(arg)
        else:
            positional.append(fill(arg))
    return positional, keywords


def _key(node: Node) -> str:
    """The same for calls that decompose in the same way."""
    return f"{node.op}({_signature(node.args)})"


def _signature(arg: Any) -> str:
    if isinstance(arg, Value):
        return str(arg.type)
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(_signature, arg))}]"
    return repr(arg)
