"""Repair of traced calls that no TorchScript overload accepts.

torch's tracer ends with a pass that looks up the overload of every node. It fails on ``torch.full_like(x, True)``, since a bool
is no number in TorchScript, and on ``torch.fill``, which it records as ``full_like`` without its options.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.torch_ops.schemas import schemas

__all__ = ["fit"]

_NONE = "(no schema)"


def fit(graph: Any) -> None:
    """Convert the inputs of calls without a schema to those of the nearest overload."""
    for node in _calls(graph):
        if node.schema() == _NONE:
            _fit(graph, node)


def _calls(block: Any) -> list[Any]:
    found = []
    for node in block.nodes():
        found += [node] if node.kind().startswith("aten::") else []
        for inner in node.blocks():
            found += _calls(inner)
    return found


def _fit(graph: Any, node: Any) -> None:
    given = [value.type().kind() for value in node.inputs()]
    fitting = [schema for schema in schemas(node.kind()) if len(schema.arguments) >= len(given) and _takes(schema, given)]
    if not fitting:
        return
    schema = min(fitting, key=lambda each: len(_not_numbers(each, given)))
    with graph.insert_point_guard(node):
        for index in _not_numbers(schema, given):
            value = list(node.inputs())[index]
            tensor = graph.insertConstant(torch.tensor(value.toIValue())) if given[index] == "BoolType" else value
            number = graph.insertNode(graph.create("aten::ScalarImplicit", [tensor], 1)).output()
            number.setType(torch._C.NumberType.get())
            node.replaceInput(index, number)
        for argument in schema.arguments[len(given) :]:
            node.addInput(graph.insertConstant(argument.default_value))


def _takes(schema: Any, given: list[str]) -> bool:
    """Whether an overload accepts inputs of these kinds; numbers may be wrapped."""
    for argument, kind in zip(schema.arguments, given, strict=False):
        wanted = argument.type.kind()
        if argument.is_out or (wanted != "NumberType" and (wanted == "TensorType") != (kind == "TensorType")):
            return False
    return all(argument.has_default_value() and not argument.is_out for argument in schema.arguments[len(given) :])


def _not_numbers(schema: Any, given: list[str]) -> list[int]:
    pairs = enumerate(zip(schema.arguments, given, strict=False))
    return [
        index for index, (argument, kind) in pairs if argument.type.kind() == "NumberType" and kind in ("BoolType", "TensorType")
    ]
