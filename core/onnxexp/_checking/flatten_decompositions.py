"""Put the nodes of decompositions into the captured graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from onnxexp._model.lowering_record import LoweringRecord
from onnxexp._neutral_graph import Graph, Node, Value, replace_values


def flattened(record: LoweringRecord) -> LoweringRecord:
    """Return the record with the nodes of decompositions in its graph.

    The new nodes come before the node that was decomposed, as parts of it.
    """
    flat = _Flattened(record)
    graph = record.graph
    nodes = list(flat.nodes(graph, {}, ""))
    return dataclasses.replace(
        record,
        graph=Graph(graph.inputs, graph.outputs, nodes, {**graph.params, **flat.params}),
        plugins={**record.plugins, **flat.plugins},
        symbolics={**record.symbolics, **flat.symbolics},
        owners=flat.owners,
    )


@dataclasses.dataclass
class _Flattened:
    """The nodes of decompositions, copied with the arguments of the node around them."""

    record: LoweringRecord
    params: dict[Value, Any] = dataclasses.field(default_factory=dict)
    plugins: dict[Node, str] = dataclasses.field(default_factory=dict)
    symbolics: dict[Node, str] = dataclasses.field(default_factory=dict)
    owners: dict[Node, str] = dataclasses.field(default_factory=dict)

    def nodes(self, graph: Graph, bound: Mapping[Value, Any], owner: str) -> Iterator[Node]:
        for node in graph.nodes:
            made = self._copy(node, bound, owner) if owner else node
            inner = self.record.decompositions.get(node)
            if inner is not None and node.outputs:
                self.params.update(inner.params)
                path = f"{owner}/{node.outputs[0].name}" if owner else node.outputs[0].name
                yield from self.nodes(inner, dict(zip(inner.inputs, made.inputs(), strict=True)), path)
            yield made

    def _copy(self, node: Node, bound: Mapping[Value, Any], owner: str) -> Node:
        args = [replace_values(arg, lambda value: bound.get(value, value)) for arg in node.args]
        copied = Node(node.op, args, node.outputs, node.blocks, node.where)
        symbolic = self.record.symbolics.get(node, "")
        self.symbolics[copied], self.owners[copied] = symbolic, owner
        self.plugins[copied] = "decomposed" if node in self.record.decompositions else symbolic.partition(".")[0]
        return copied
