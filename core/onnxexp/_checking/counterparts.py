"""The ONNX values of captured ones, in one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import torch_dtype
from onnxexp._neutral_graph import Node, ScalarType, TensorType, Value


class Counterparts:
    """The ONNX value of each captured value in one model, by the names of a record.

    Attributes:
        model: The model.
        found: The counterparts: values of this model, small constants, and numbers.
    """

    def __init__(self, model: ir.Model, recorded: Mapping[Value, Any]) -> None:
        self.model = model
        live: dict[str | None, ir.Value] = {}
        for graph in (model.graph, *model.graph.subgraphs()):
            live.update((value.name, value) for value in (*graph.inputs, *graph.initializers.values()))
            live.update((output.name, output) for node in graph for output in node.outputs)
        present = {value: live.get(each) if isinstance(each, str) else each for value, each in recorded.items()}
        self.found = {value: each for value, each in present.items() if each is not None}

    def onnx(self, value: Value) -> ir.Value | None:
        """Return the ONNX value, or None for constants and for values that ONNX lacks."""
        found = self.found.get(value)
        return found if isinstance(found, ir.Value) else None

    def of(self, node: Node) -> list[ir.Value]:
        """List the ONNX values of a captured node's results."""
        return [onnx for output in node.outputs if (onnx := self.onnx(output)) is not None]

    def onnx_values(self) -> set[ir.Value]:
        """Return all ONNX values that are counterparts."""
        return {each for each in self.found.values() if isinstance(each, ir.Value)}


def as_captured(value: Value, result: Any) -> Any:
    """Convert a result to the captured value's form, a number or a tensor."""
    if isinstance(value.type, ScalarType) and isinstance(result, torch.Tensor) and result.numel() == 1:
        return value.type.kind(result.item())
    if isinstance(value.type, TensorType) and isinstance(result, (bool, int, float)):
        return torch.tensor(result, dtype=value.type.dtype)
    return result


def as_onnx(value: ir.Value, result: Any) -> Any:
    """Convert a captured result to the ONNX value's form.

    A number becomes a tensor of the value's dtype and rank.
    """
    if not isinstance(result, (bool, int, float)) or value.dtype is None:
        return result
    sizes = [1] * (len(value.shape) if value.shape is not None else 0)
    return torch.tensor(result, dtype=torch_dtype(value.dtype)).reshape(sizes)
