"""Check the contract of a pass, which keeps inputs, outputs and opset.

The contract is checked after each pass, the whole graph after the passes of other projects, and in debug mode.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnxexp._errors import summary
from onnxexp._neutral_graph import Graph
from onnxexp._serialize.proto_layout import skeleton

Contract = tuple[Any, ...]


def contract(subject: Graph | ir.Model) -> Contract:
    """Return what a pass must keep.

    For a captured graph: the names of the inputs and the number of outputs. For a model: the names and dtypes of inputs and
    outputs in order, the fixed sizes of the inputs, and the opset.
    """
    if isinstance(subject, Graph):
        return tuple(value.name for value in subject.inputs), len(subject.outputs)
    graph = subject.graph
    inputs = tuple((value.name, value.dtype, _fixed_sizes(value)) for value in graph.inputs)
    outputs = tuple((value.name, value.dtype) for value in graph.outputs)
    return inputs, outputs, graph.opset_imports.get("")


def _fixed_sizes(value: ir.Value) -> tuple[int | None, ...] | None:
    """Return a shape without the names of its dynamic axes, which a pass may change."""
    return None if value.shape is None else tuple(size if isinstance(size, int) else None for size in value.shape)


def changed(before: Contract, subject: Graph | ir.Model) -> str:
    """Describe how a pass broke the contract, or return "" if it did not."""
    try:
        after = contract(subject)
    except Exception as error:  # noqa: BLE001 – a pass may leave anything where the graph was
        return f"its inputs and outputs cannot be read: {summary(error)}"
    parts = zip(("inputs", "outputs", "opset"), before, after, strict=False)
    return next((f"its {name} were {was}, now they are {now}" for name, was, now in parts if was != now), "")


def check_model(model: ir.Model) -> str:
    """Run onnx's checker without the weights, and return its message or ""."""
    try:
        for function in model.functions.values():
            made = {*function.inputs, *(value for node in function for value in node.outputs)}
            if unmade := [value.name for value in function.outputs if value not in made]:
                return f"the function {function.name} returns {unmade}, which nothing makes"
        proto = skeleton(model)
        inputs = {given.name for given in proto.graph.input}
        for name, value in model.graph.initializers.items():
            held = value.const_value
            if held is not None and (held.dtype != value.dtype or _fixed_sizes(value) != tuple(held.shape)):
                return f"the initializer {name} is declared as {value.type} {value.shape}, and its value is {held!r}"
            if held is None and name not in inputs:
                return f"the initializer {name} has no value"
            if name not in inputs:
                proto.graph.input.append(ir.to_proto(value))
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # noqa: BLE001 – a broken graph may fail anywhere on its way into the checker
        return f"{summary(error)}"
    return ""
