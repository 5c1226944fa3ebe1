"""The record of a lowering, for comparing both graphs node by node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir

from onnxexp._neutral_graph import Graph, Node, Value

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
