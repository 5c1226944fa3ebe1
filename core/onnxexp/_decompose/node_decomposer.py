"""Decompose single nodes with torch's own decompositions.

Only nodes that no plugin claims are decomposed, until claimed operators are left. A decomposition of the whole program would also
split operators that plugins lower whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._decomp import global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import Mod, PythonMod

from onnxexp._capture.exact_reshape_sizes import fake_kernels
from onnxexp._capture.shape_env_snapshot import ShapeEnvSnapshot, clear_caches
from onnxexp._capture.torch_state import torch_mode
from onnxexp._decompose.op_recorder import OpRecorder
from onnxexp._errors import CaptureError
from onnxexp._functionalize import drop_dead, functionalize
from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Type, Value, replace_values
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._torch_ops.schemas import overload

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class Decomposer:
    """The decomposition of nodes under the capture's fake mode, once for equal calls.

    Attributes:
        fake_mode: Returns the fake mode; called at the first decomposition that needs one.
        sizes: The symbolic number of each symbolic size, by its expression of names.
        dim_of: Returns a size of torch's as an expression of names.
    """

    fake_mode: Callable[[], FakeTensorMode]
    sizes: Mapping[SymbolicSize, Any]
    dim_of: Callable[[Any], Dim]
    _known: dict[str, Graph | None] = dataclasses.field(default_factory=dict, init=False)

    def __call__(self, node: Node) -> Graph | None:
        """Decompose a node into a graph whose inputs are `node.inputs()` in order.

        Returns None if torch has no decomposition.
        """
        key = _key(node)
        if key not in self._known:
            self._known[key] = self._decompose(node)
        return self._known[key]

    def _decompose(self, node: Node) -> Graph | None:
        op = overload(node.op)
        types = [value.type for value in node.inputs()]
        if op is None or any(isinstance(each, TensorType) and None in (each.sizes, each.dtype) for each in types):
            return None
        attempts = (self._decompose_with(function, op, node) for function in _decompositions(op))
        return next((graph for graph in attempts if graph is not None), None)

    def _decompose_with(self, function: Callable[..., Any], op: OpOverload, node: Node) -> Graph | None:
        """Decompose a node with one function.

        Returns None if the function fails, or if its result holds for the example's sizes only.
        """
        static = all(isinstance(value.type, TensorType) for value in node.inputs()) and not _symbolic_sizes(node.inputs())
        suspect = not static and any(free_unbacked_symbols(self.sizes.get(size, 0)) for size in _symbolic_sizes(node.outputs))
        mode = self.fake_mode()
        with (
            torch_mode(),
            _undo_specialisation(mode.shape_env, suspect=suspect) as specialised,
            fake_kernels(mode),
        ):
            fakes = [self._fake(value) for value in node.inputs()]
            if any(fake is None for fake in fakes):
                return None
            graph = _record(OpRecorder(self.dim_of), op, function, node, fakes)
            return None if graph is None or specialised() or not _keeps_symbolic_sizes(node, graph) else graph

    def _fake(self, value: Value) -> Any:
        if isinstance(value.type, ScalarType):
            return None if value.type.expr is None else self.sizes.get(value.type.expr)
        sizes: list[Any] = [size if isinstance(size, int) else self.sizes.get(size) for size in value.type.sizes or ()]
        return None if None in sizes else torch.empty(sizes, dtype=value.type.dtype)


def _record(recorder: OpRecorder, op: OpOverload, function: Callable[..., Any], node: Node, tensors: list[Any]) -> Graph | None:
    """Record a function's operators as a functional graph, or return None if it fails."""
    graph = recorder.graph
    for tensor, value in zip(tensors, node.inputs(), strict=True):
        graph.inputs.append(Value(value.name, value.type))
        recorder.bind_value(tensor, graph.inputs[-1])
    try:
        with recorder, enable_python_dispatcher():
            result = _call(op, function, node.args, iter(tensors))  # torch's Python kernels accept symbolic sizes
        graph.outputs = pytree.tree_leaves(recorder.value(result))
    except Exception as error:  # noqa: BLE001 - torch's code may raise anything on tensors without data
        _LOGGER.debug("%s is not decomposed: %s: %s", node.op, type(error).__name__, error)
        return None
    if any(inner.op == node.op and _key(inner) == _key(node) for inner in graph.nodes):
        return None  # the recursion would never end
    try:
        functionalize(graph)
    except CaptureError:
        return None
    drop_dead(graph)
    return graph


def _sizes(type_: Type | None) -> tuple[Dim, ...]:
    return type_.sizes or () if isinstance(type_, TensorType) else ()


@contextlib.contextmanager
def _undo_specialisation(env: ShapeEnv | None, *, suspect: bool) -> Iterator[Callable[[], bool]]:
    """Undo a specialisation of input sizes by the code inside the `with`.

    The yielded function returns whether an input size was specialised. `suspect` marks a node with unbacked output sizes: a guard
    on the example's sizes then counts as a specialisation too.
    """
    if env is None:
        yield lambda: False
        return
    before = ShapeEnvSnapshot(env)
    if suspect:
        clear_caches()

    def specialised() -> bool:
        fixed = suspect and any(_fixes_size(guard.expr) for guard in env.guards)
        return fixed or not env.backed_var_to_val.keys().isdisjoint(env.replacements.keys() - before.replacements.keys())

    try:
        yield specialised
    finally:
        if specialised():
            before.restore()


def _fixes_size(guard: sympy.Basic) -> bool:
    """Return whether a guard fixes a size or its remainder."""
    return (isinstance(guard, sympy.Eq) and any(side.is_number for side in guard.args)) or guard.has(Mod, PythonMod)


def _keeps_symbolic_sizes(node: Node, graph: Graph) -> bool:
    """Return whether every symbolic output size stays symbolic in the decomposition."""
    outputs = (output.type if isinstance(output, Value) else None for output in graph.outputs)
    pairs = zip(outputs, (value.type for value in node.outputs), strict=False)
    sizes = [pair for new, old in pairs for pair in zip(_sizes(new), _sizes(old), strict=False)]
    return all(isinstance(one, SymbolicSize) or isinstance(two, int) for one, two in sizes)


def _symbolic_sizes(values: list[Value]) -> list[SymbolicSize]:
    return [size for value in values for size in _sizes(value.type) if isinstance(size, SymbolicSize)]


def _decompositions(op: OpOverload) -> Iterator[Callable[..., Any]]:
    """Yield a composite's own implementation, then torch's table entry."""
    if not torch._C._dispatch_has_kernel(op.name()):  # type: ignore[no-untyped-call] # TorchScript's own, such as aten::mul.int
        return
    if op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        yield op.decompose
    listed: Callable[..., Any] | None = global_decomposition_table["post_autograd"].get(op)
    if listed is not None:
        yield listed


def _call(op: OpOverload, function: Callable[..., Any], args: list[Any], inputs: Iterator[Any]) -> Any:
    """Call a function with an operator's arguments, and `inputs` in place of values."""
    filled = replace_values(args, lambda _: next(inputs))
    named = {argument.name: arg for argument, arg in zip(op._schema.arguments, filled, strict=True)}
    positional = [named.pop(argument.name) for argument in op._schema.arguments if not argument.kwarg_only]
    return function(*positional, **named)


def _key(node: Node) -> str:
    """Return a key that is equal for calls with equal decompositions."""
    return f"{node.op}({_signature(node.args)})"


def _signature(arg: Any) -> str:
    if isinstance(arg, Value):
        return str(arg.type)
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(_signature, arg))}]"
    return repr(arg)
