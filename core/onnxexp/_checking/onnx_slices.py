"""Run an ONNX graph in slices, to get all its values in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import onnx_dtype, torch_dtype


class Runner(Protocol):
    """A loaded model, in ONNX Runtime or the reference evaluator."""

    def run(self, feeds: Mapping[str, Any]) -> list[Any]: ...


OpenSession: TypeAlias = Callable[[ir.Model], Runner]
"""Loads a model to run it."""


def free_values(node: ir.Node) -> list[ir.Value]:
    """List the values that a node and its subgraphs read from outside."""
    found = [value for value in node.inputs if value is not None]
    for graph in _subgraphs(node):
        own = {*graph.inputs, *graph.initializers.values(), *(output for inner in graph for output in inner.outputs)}
        read = [value for inner in graph for value in free_values(inner)] + list(graph.outputs)
        found += [value for value in read if value not in own]
    return list(dict.fromkeys(found))


def boundary(outputs: Iterable[ir.Value], stop: Collection[ir.Value]) -> tuple[list[ir.Node], list[ir.Value]]:
    """Find the nodes that compute these values from those in `stop`, in no order.

    Returns the nodes and the values that they start from.
    """
    nodes: dict[ir.Node, None] = {}
    start: dict[ir.Value, None] = {}
    stack = [producer for value in outputs if (producer := value.producer()) is not None]
    while stack:
        node = stack.pop()
        if node in nodes:
            continue
        nodes[node] = None
        for value in free_values(node):
            producer = value.producer()
            if value in stop or producer is None:
                start[value] = None
            else:
                stack.append(producer)
    return list(nodes), list(start)


def slice_model(
    model: ir.Model, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], given: Mapping[ir.Value, Any]
) -> ir.Model:
    """Make a model of some nodes.

    The model's inputs are the values in `given` that the nodes read, with the types of these tensors.
    """
    made = {output for node in nodes for output in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in free_values(node) if value not in made)
    inputs = [value for value in read if value in given]
    weights = [value for value in read if value not in given and value.const_value is not None]
    view = ir.GraphView(inputs, outputs, nodes=nodes, initializers=weights, opset_imports=model.graph.opset_imports, name="slice")
    graph = view.clone()
    for copied, value in zip(graph.inputs, inputs, strict=True):
        tensor = given[value]
        if isinstance(tensor, torch.Tensor):
            copied.type, copied.shape = ir.TensorType(onnx_dtype(tensor.dtype)), ir.Shape(tensor.shape)
        copied.const_value = None
    functions = [function.clone() for function in model.functions.values()]
    made_model = ir.Model(graph, ir_version=model.ir_version, functions=functions)
    made_model.metadata_props.update(model.metadata_props)
    return made_model


class SlicedRun:
    """The values of one graph for one call.

    Each node runs once, at the first request for a value that depends on it.

    Args:
        model: The model of the graph, for its functions and opsets.
        nodes: The graph's nodes in order.
        given: The values that are known from the start: the graph's inputs.
        open_session: Loads a slice.
    """

    def __init__(
        self, model: ir.Model, nodes: Iterable[ir.Node], given: Mapping[ir.Value, Any], open_session: OpenSession
    ) -> None:
        self._model, self._open = model, open_session
        self._nodes = list(nodes)
        self._needs = {node: free_values(node) for node in self._nodes}
        self._remaining = Counter(value for needed in self._needs.values() for value in needed)
        self._known: dict[ir.Value, Any] = dict(given)
        self._done: set[ir.Node] = set()

    def values(self, wanted: Iterable[ir.Value]) -> dict[ir.Value, Any]:
        """Return the requested values that this graph computes or was given.

        Raises OnnxExporterError where the backend cannot run a slice.
        """
        targets = list(dict.fromkeys(wanted))
        nodes = self._missing(targets)
        if nodes:
            self._run(nodes, [value for value in targets if _readable(value)])
        found = {value: self._known[value] for value in targets if value in self._known}
        for value in [value for value in self._known if self._remaining[value] == 0]:
            del self._known[value]
        return found

    def _missing(self, targets: Iterable[ir.Value]) -> list[ir.Node]:
        """List the nodes to run, in the graph's order."""
        nodes: set[ir.Node] = set()
        stack = list(targets)
        while stack:
            value = stack.pop()
            producer = value.producer()
            if value in self._known or producer is None or producer not in self._needs or producer in nodes:
                continue
            if producer in self._done and _readable(value):
                continue  # it was computed and let go: nothing later reads it
            nodes.add(producer)
            stack += self._needs[producer]
        return [node for node in self._nodes if node in nodes] if nodes else []

    def _run(self, nodes: Sequence[ir.Node], targets: Iterable[ir.Value]) -> None:
        for node in nodes:
            if node not in self._done:
                self._remaining.subtract(self._needs[node])
        made = dict.fromkeys(output for node in nodes for output in node.outputs if output.name)
        outputs = [value for value in made if _readable(value) and self._remaining[value] > 0]
        outputs += [value for value in targets if value in made and self._remaining[value] <= 0]
        read = {value for node in nodes for value in self._needs[node]}
        given = {value: tensor for value, tensor in self._known.items() if value in read}
        runner = self._open(slice_model(self._model, nodes, outputs, given))
        results = runner.run({str(value.name): tensor for value, tensor in given.items()})
        self._known.update(zip(outputs, results, strict=True))
        self._done.update(nodes)


def _readable(value: ir.Value) -> bool:
    """Return whether a run can return a value.

    torch has no 4-bit integers and no strings.
    """
    if not isinstance(value.type, ir.TensorType):
        return True
    try:
        torch_dtype(value.type.dtype)
    except TypeError:
        return False
    return True


def _subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()
