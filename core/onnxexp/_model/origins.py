"""The origin of an ONNX node, which an export writes into its `metadata_props`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxexp._neutral_graph import Graph, Node, Value

PREFIX = "onnxexp."


@dataclasses.dataclass(frozen=True)
class NodeOrigin:
    """The origin of a node, with fields that may be "".

    Attributes:
        op: The torch operator.
        node: The name of the captured node, which is that of its first result.
        scope, module: The path of the module, and its class.
        source: ``file:line`` of the user's code.
        plugin, symbolic: The plugin and the full name of the symbolic that made it.
        made_by: The pass that made it.
    """

    op: str = ""
    node: str = ""
    scope: str = ""
    module: str = ""
    source: str = ""
    plugin: str = ""
    symbolic: str = ""
    made_by: str = ""

    @classmethod
    def of(cls, node: ir.Node) -> NodeOrigin | None:
        """Read the origin of a node, or None if its file lacks it."""
        found = {name[len(PREFIX) :]: text for name, text in node.metadata_props.items() if name.startswith(PREFIX)}
        found["made_by"] = found.pop("pass", "")
        known = {field.name: found.get(field.name, "") for field in dataclasses.fields(cls)}
        return cls(**known) if any(known.values()) else None


@contextlib.contextmanager
def without_origins(model: ir.Model) -> Iterator[None]:
    """Remove the origins of all nodes of a model inside the `with`."""
    nodes = [*model.graph.all_nodes(), *(node for function in model.functions.values() for node in function.all_nodes())]
    kept = [(node, dict(node.metadata_props)) for node in nodes]
    try:
        for node, properties in kept:
            node.metadata_props.clear()
            node.metadata_props.update({name: text for name, text in properties.items() if not name.startswith(PREFIX)})
        yield
    finally:
        for node, properties in kept:
            node.metadata_props.update(properties)


Counterpart: TypeAlias = Any
"""The name of a captured value's ONNX value; a small constant is a torch.Tensor or a number."""


@dataclasses.dataclass(frozen=True, eq=False)
class LoweringRecord:
    """The captured graph of a program, and how each of its nodes was lowered.

    Attributes:
        graph: The captured graph after the pre passes.
        counterparts: The counterpart of each captured value before the post passes, those in blocks and decompositions too.
            Values that were folded away, and complex tensors, have none. A pass that changes a value's contents must rename it.
        plugins: The plugin that lowered each node of the captured graph, "decomposed" or "core".
        symbolics: The full name of the symbolic that lowered a node, also one of a decomposition.
        decompositions: The graphs of the nodes that were decomposed.
        passes: The post passes that ran, in order, as ``plugin/name``.
        owners: For a node of a decomposition, the names of the nodes around it, as a path.
        rebuild: Lowers the graph again and runs the first so many post passes; returns the model and its record.
    """

    graph: Graph
    counterparts: Mapping[Value, Counterpart]
    plugins: Mapping[Node, str]
    symbolics: Mapping[Node, str]
    decompositions: Mapping[Node, Graph]
    passes: Sequence[str]
    rebuild: Callable[[int], tuple[ir.Model, LoweringRecord]]
    owners: Mapping[Node, str] = dataclasses.field(default_factory=dict)


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Yield the nodes of a model, those of nested graphs and of functions too."""
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()
