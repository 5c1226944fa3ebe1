"""Checks after a pass: the same inputs, outputs and opset, and a valid model.

The first check runs after each pass, the second one after the passes of other projects, and in debug mode.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnxexp._errors import summary
from onnxexp._neutral_graph import Graph
from onnxexp._serialize.proto_layout import skeleton

Interface = tuple[Any, ...]


def interface_of(subject: Graph | ir.Model) -> Interface:
    """Return the inputs, outputs and opset, which a pass must keep.

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


def describe_change(before: Interface, subject: Graph | ir.Model) -> str:
    """Describe what a pass changed in the interface, or return "" if nothing."""
    try:
        after = interface_of(subject)
    except Exception as error:  # noqa: BLE001 – a pass may leave anything where the graph was
        return f"its inputs and outputs cannot be read: {summary(error)}"
    for name, old, new in zip(("inputs", "outputs", "opset"), before, after, strict=False):
        if old != new:
            return f"its {name} were {old}, now they are {new}"
    return ""


def check_model(model: ir.Model) -> str:
    """Run onnx's checker without the weights, and return its message or ""."""
    try:
        problem = _function_problem(model)
        if problem:
            return problem
        proto = skeleton(model)
        inputs = {value.name for value in proto.graph.input}
        for name, value in model.graph.initializers.items():
            tensor = value.const_value
            if tensor is not None and (tensor.dtype != value.dtype or _fixed_sizes(value) != tuple(tensor.shape)):
                return f"the initializer {name} is declared as {value.type} {value.shape}, and its value is {tensor!r}"
            if tensor is None and name not in inputs:
                return f"the initializer {name} has no value"
            if name not in inputs:
                proto.graph.input.append(ir.to_proto(value))
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # noqa: BLE001 – a broken graph may fail anywhere on its way into the checker
        return f"{summary(error)}"
    return ""


def _function_problem(model: ir.Model) -> str:
    """Describe outputs of a function that no node computes, or return ""."""
    for function in model.functions.values():
        available = {*function.inputs, *(value for node in function for value in node.outputs)}
        missing = [value.name for value in function.outputs if value not in available]
        if missing:
            return f"the function {function.name} returns {missing}, which nothing makes"
    return ""
