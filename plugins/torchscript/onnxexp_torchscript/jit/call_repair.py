"""Repair of traced calls.

torch's tracer ends with a pass that looks up the overload of every node. It fails on ``torch.full_like(x, True)``, since a bool
is no number in TorchScript, and on ``torch.fill``, which it records as ``full_like`` without its options.

An assignment ``x[i:] = v`` is recorded as ``copy_`` of `v` expanded to the sizes of the example, and ``x[indices] = v`` as
``index_put_`` of a view with these sizes where `v` begins with axes of size 1.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.torch_ops import schemas
from onnxexp_torchscript.jit.jit_nodes import blocks, inputs, nodes

_NONE = "(no schema)"


def fit(graph: Any) -> None:
    """Convert the inputs of calls without a schema to those of the nearest overload."""
    for node in _calls(graph.return_node().owningBlock()):
        if node.schema() == _NONE:
            _fit(graph, node)


def broadcast_writes(graph: Any) -> None:
    """Let ``copy_`` and ``index_put_`` broadcast, in place of the example's sizes."""
    for node in graph.findAllNodes("aten::copy_"):
        _broadcast(graph, node)
    for node in graph.findAllNodes("aten::index_put_"):
        view = node.inputsAt(2).node()
        if strips_ones(view) and _has_constant_sizes(view) and len(_sizes(view.inputsAt(0))) <= _indexed_rank(node):
            node.replaceInput(2, view.inputsAt(0))
            _drop_unused([view])


def _has_constant_sizes(view: Any) -> bool:
    """Return whether a view has the sizes that the tracer took from the example."""
    sizes = [size.toIValue() for size in inputs(view.inputsAt(1).node())]
    return all(size is not None and size >= 0 for size in sizes)


def _indexed_rank(node: Any) -> int:
    """Return the rank of the elements that an assignment at indices writes."""
    written, indices = inputs(node)[:2]
    rank, found = len(_sizes(written)), 0
    for index in inputs(indices.node()):
        if index.type().kind() == "TensorType":
            mask = index.type().dtype() in (torch.bool, torch.uint8)
            rank -= len(_sizes(index)) if mask else 1
            found = max(found, 1 if mask else len(_sizes(index)))
    return rank + found


def _broadcast(graph: Any, node: Any) -> None:
    written, source = inputs(node)[:2]
    passed = []
    while source.node().kind() == "aten::expand" or strips_ones(source.node()):
        passed.append(source.node())
        source = source.node().inputsAt(0)
    added = len(_sizes(source)) - len(_sizes(written)) if passed else 0
    with graph.insert_point_guard(node):
        for _ in range(added):
            squeezed = graph.insertNode(graph.create("aten::squeeze", [source, graph.insertConstant(0)], 1)).output()
            squeezed.setType(source.type().with_sizes(_sizes(source)[1:]))
            source = squeezed
    node.replaceInput(1, source)
    _drop_unused(passed)


def _drop_unused(views: list[Any]) -> None:
    for node in views:
        if not node.output().uses():
            node.destroy()


def strips_ones(node: Any) -> bool:
    """Return whether a view only drops axes of size 1 in front."""
    if node.kind() != "aten::view":
        return False
    before, after = node.inputsAt(0).type().sizes(), node.output().type().sizes()
    if before is None or after is None:  # in a script
        return False
    dropped = len(before) - len(after)
    return bool(before[dropped:] == after and set(before[:dropped]) <= {1})


def _sizes(value: Any) -> list[int]:
    return value.type().sizes() or []


def _calls(block: Any) -> list[Any]:
    found = []
    for node in nodes(block):
        kind = node.kind()
        if kind.startswith("aten::"):
            found.append(node)
        elif kind != "prim::Constant":  # two thirds of the nodes
            for inner in blocks(node):
                found += _calls(inner)
    return found


def _fit(graph: Any, node: Any) -> None:
    given = [value.type().kind() for value in inputs(node)]
    fitting = [schema for schema in schemas(node.kind()) if len(schema.arguments) >= len(given) and _takes(schema, given)]
    if not fitting:
        return
    schema = min(fitting, key=lambda each: len(_not_numbers(each, given)))
    with graph.insert_point_guard(node):
        for index in _not_numbers(schema, given):
            value = node.inputsAt(index)
            tensor = graph.insertConstant(torch.tensor(value.toIValue())) if given[index] == "BoolType" else value
            number = graph.insertNode(graph.create("aten::ScalarImplicit", [tensor], 1)).output()
            number.setType(torch._C.NumberType.get())
            node.replaceInput(index, number)
        for argument in schema.arguments[len(given) :]:
            node.addInput(graph.insertConstant(argument.default_value))


def _takes(schema: Any, given: list[str]) -> bool:
    """Return whether an overload accepts inputs of these kinds, even if wrapped."""
    for argument, kind in zip(schema.arguments, given, strict=False):
        wanted = _kind(argument)
        missing = kind == "NoneType" and argument.type.kind() == "OptionalType"
        if argument.is_out or (wanted != "NumberType" and not missing and (wanted == "TensorType") != (kind == "TensorType")):
            return False
    return all(argument.has_default_value() and not argument.is_out for argument in schema.arguments[len(given) :])


def _not_numbers(schema: Any, given: list[str]) -> list[int]:
    pairs = enumerate(zip(schema.arguments, given, strict=False))
    return [index for index, (argument, kind) in pairs if _kind(argument) == "NumberType" and kind in ("BoolType", "TensorType")]


def _kind(argument: Any) -> str:
    """Return the kind of an argument's type, of its element if it is optional."""
    kind: str = argument.type.kind()
    return argument.type.getElementType().kind() if kind == "OptionalType" else kind
