"""The ONNX node that makes a tensor, for symbolics that inspect their arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

from onnxexp._builder.graph_state import GraphState
from onnxexp._builder.tensor import Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor


@dataclasses.dataclass(frozen=True)
class Producer:
    """The ONNX node that makes a tensor.

    Attributes:
        operator: ``Transpose``, or ``my.domain::Foo`` in another domain than ONNX's own.
        inputs: The inputs in the schema's order; None where an optional one is not given.
        attributes: Python values by name: numbers, strings, tuples of those, torch tensors, `onnx_ir.Graph`. Attributes that
            equal the schema's default are left out.
    """

    operator: str
    inputs: tuple[Tensor | None, ...]
    attributes: dict[str, Any]


def find_producer(state: GraphState, tensor: Tensor) -> Producer | None:
    """Return the node that makes a tensor.

    Returns None for constants and for the inputs of graphs.
    """
    node = None if tensor.known_value is None else tensor.known_value.producer()
    if node is None:
        return None
    return Producer(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
        tuple(None if value is None else state.tensor_of(value) for value in node.inputs),
        {name: each.value.torch if isinstance(each.value, TorchTensor) else each.value for name, each in node.attributes.items()},
    )
