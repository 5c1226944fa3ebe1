"""torch's own decompositions, for one node at a time.

Decomposing the whole program would cost more than capturing it and would take apart what plugins lower well; so only a
node that no plugin claims comes here, and only until claimed operators are left.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._decomp import global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxexp.capture.exported import Converter
from onnxexp.capture.modes import hush_torch, torch_mode
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim, Graph, Node, ScalarType, TensorType, Value
from onnxexp.passes.dead import drop_dead
from onnxexp.passes.functionalize import functionalize
from onnxexp.torch_schemas import overload

__all__ = ["Decomposer"]


class Decomposer:
    """Decomposes nodes under the capture's fake mode; equal calls are decomposed once.

    `fake_mode` gives the mode, which need not be made where nothing is decomposed; `sizes` maps the readable text of each
    symbolic size to the symbolic number that it stands for.
    """

    def __init__(self, fake_mode: Callable[[], FakeTensorMode], sizes: Mapping[str, Any], dim_text: Callable[[Any], Dim]) -> None:
        self._mode = fake_mode
        self._sizes = sizes
        self._dim_text = dim_text
        self._known: dict[str, Graph | None] = {}

    def __call__(self, node: Node) -> Graph | None:
        """The simpler nodes; the graph's inputs stand for `node.inputs()` in order. None where torch knows none."""
        key = _key(node)
        if key not in self._known:
            self._known[key] = self._decompose(node)
        return self._known[key]

    def _decompose(self, node: Node) -> Graph | None:
        op = overload(node.op)
        inputs = list(node.inputs())
        if op is None or any(
            isinstance(value.type, TensorType) and None in (value.type.sizes, value.type.dtype) for value in inputs
        ):
            return None
        fakes = [self._fake(value) for value in inputs]
        if any(fake is None for fake in fakes):
            return None
        traced = (self._trace(op, function, node, fakes) for function in _decompositions(op))
        graphs = (self._convert(module, inputs, node) for module in traced if module is not None)
        return next((graph for graph in graphs if graph is not None), None)

    def _trace(
        self, op: torch._ops.OpOverload, function: Callable[..., Any], node: Node, fakes: list[Any]
    ) -> torch.fx.GraphModule | None:
        """What the function does with these inputs; None where it fails, or does what holds for the example's sizes only."""

        def call(*flat: Any) -> Any:
            positional, keywords = _rebuild(op, node.args, iter(flat))
            return function(*positional, **keywords)

        hush_torch()
        with torch_mode(), _provisional(self._mode().shape_env) as baked_in:
            try:
                with self._mode(), enable_python_dispatcher():  # what torch writes in Python takes symbolic sizes
                    module = make_fx(call)(*fakes)
            except Exception:  # noqa: BLE001 - a decomposition that fails on fake tensors, with whatever error, is none
                return None
            return None if baked_in() else module

    def _fake(self, value: Value) -> Any:
        if isinstance(value.type, ScalarType):
            return self._sizes.get(value.type.expr or "")
        sizes: list[Any] = [size if isinstance(size, int) else self._sizes.get(size) for size in value.type.sizes or ()]
        if None in sizes:
            return None
        with self._mode():
            return torch.empty(sizes, dtype=value.type.dtype)

    def _convert(self, module: torch.fx.GraphModule, inputs: list[Value], node: Node) -> Graph | None:
        graph = Graph()
        converter = Converter(module, graph, self._dim_text)
        for placeholder, value in zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True):
            converter.env[placeholder] = Value(value.name, value.type)
            graph.inputs.append(converter.env[placeholder])
        try:
            converter.run()
            if any(_key(inner) == _key(node) for inner in graph.walk()):
                return None  # it would never end
            if not _keeps_sizes(node, graph):
                return None
            functionalize(graph)
            drop_dead(graph)
        except CaptureError:
            return None
        return graph


@contextlib.contextmanager
def _provisional(env: ShapeEnv | None) -> Iterator[Callable[[], bool]]:
    """Yields whether a size of the model's inputs has been fixed, or tied to another, since; if so that is undone at the end."""
    if env is None:
        yield lambda: False
        return
    before = {name: copy.copy(value) for name, value in vars(env).items() if isinstance(value, (dict, list, set))}

    def baked_in() -> bool:
        return any(symbol not in before["replacements"] and symbol in env.backed_var_to_val for symbol in env.replacements)

    try:
        yield baked_in
    finally:
        if baked_in():
            vars(env).update(before)
            env._replacements_version_counter += 1
            env._update_version_counter()


def _keeps_sizes(node: Node, graph: Graph) -> bool:
    """False for a decomposition that gives a dynamic size as a number."""
    made = [output.type for output in graph.outputs if isinstance(output, Value)]
    pairs = zip(made, (value.type for value in node.outputs), strict=False)
    sizes = [
        (one.sizes or (), two.sizes or ()) for one, two in pairs if isinstance(one, TensorType) and isinstance(two, TensorType)
    ]
    return all(isinstance(one, str) or isinstance(two, int) for new, old in sizes for one, two in zip(new, old, strict=False))


def _decompositions(op: torch._ops.OpOverload) -> Iterator[Callable[..., Any]]:
    """What torch itself runs for a composite operator, then the entry of its table of decompositions."""
    if not torch._C._dispatch_has_kernel(op.name()):  # type: ignore[no-untyped-call] # TorchScript's own, such as aten::mul.int
        return
    if op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        yield op.decompose
    listed: Callable[..., Any] | None = global_decomposition_table["post_autograd"].get(op)
    if listed is not None:
        yield listed


def _rebuild(op: torch._ops.OpOverload, args: list[Any], remaining: Any) -> tuple[list[Any], dict[str, Any]]:
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
