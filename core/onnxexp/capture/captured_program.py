"""What a frontend returns: the implementations of the hook `capture`.

A frontend builds a `Graph`, calls `make_functional` on it, and returns a `CapturedProgram`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from torch.utils import _pytree as pytree

from onnxexp.functionalize import drop_dead, functionalize
from onnxexp.neutral_graph import Graph, Node, Value
from onnxexp.user_warnings import warn

__all__ = ["CapturedProgram", "make_functional"]


@dataclasses.dataclass(frozen=True)
class CapturedProgram:
    """A captured model.

    Attributes:
        graph: A functional graph: no node writes in place. Its inputs are the leaves of the example's (args, kwargs).
        decompose: Decomposes one node: returns a graph whose inputs are `node.inputs()`, in order, or None. A
            `onnxexp.capture.torch_export.decompose.node_decomposer.Decomposer` uses torch's own decompositions.
        in_spec, out_spec: torch's pytree specs of (args, kwargs) and of the model's result.
        constants: Branches and numbers that the example fixed, each with the user's source line.
        restrictions: Conditions on sizes under which the program is right, each with a test of a call's leaves.
        containers: The ONNX type of each input that is a sequence or an optional, and the shape of its tensors.
    """

    graph: Graph
    decompose: Callable[[Node], Graph | None]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    constants: Sequence[str] = ()
    restrictions: Mapping[str, Callable[[Sequence[Any]], bool]] = dataclasses.field(default_factory=dict)
    containers: Mapping[Value, tuple[ir.TypeProtocol, ir.Shape]] = dataclasses.field(default_factory=dict)


def make_functional(graph: Graph, written_elsewhere: Sequence[str]) -> None:
    """Functionalize a graph, and warn of writes that outlive a call.

    Args:
        graph: The graph, changed in place.
        written_elsewhere: Names of inputs and buffers that the forward writes without a node in the graph.
    """
    if changed := [*functionalize(graph), *written_elsewhere]:
        warn(
            f"the forward writes into {', '.join(changed)}; an ONNX graph keeps no state: its outputs are right, "
            "but the written values are lost between calls"
        )
    drop_dead(graph)
