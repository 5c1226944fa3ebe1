"""Run a neutral graph with torch itself, to compare what a pass made with eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp._neutral_graph import Graph, Node, Value
from onnxexp._torch_export.program_converter import to_graph
from onnxexp._torch_ops.schemas import overload
from onnxexp.graph import SymbolicSize


def capture(model: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None) -> Graph:
    """Capture a model with torch.export as a neutral graph, with in-place operators."""
    program = torch.export.export(model, args, dynamic_shapes=dynamic_shapes, strict=False)
    return to_graph(program, lambda size: size if isinstance(size, int) else str(size))


def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Run a graph with clones of its parameters, in case the graph still writes."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    env.update((value, tensor.clone()) for value, tensor in graph.params.items())
    return _run(graph, env)


def _run(graph: Graph, env: dict[Value, Any]) -> list[Any]:
    for node in graph.nodes:
        results = _node(node, env)
        assert len(results) == len(node.outputs), node
        for value, result in zip(node.outputs, results, strict=True):
            assert value not in env or graph.inputs, f"{value!r} is made twice"
            env[value] = result
    return [_look_up(output, env) for output in graph.outputs]


def _look_up(arg: Any, env: dict[Value, Any]) -> Any:
    if isinstance(arg, (list, tuple)):
        return [_look_up(element, env) for element in arg]
    return env[arg] if isinstance(arg, Value) else arg


def _node(node: Node, env: dict[Value, Any]) -> list[Any]:
    args = [_look_up(arg, env) for arg in node.args]
    if node.op == "prim::If":
        return _run(node.blocks[0 if args[0] else 1], dict(env))
    if node.op == "prim::Loop":
        return _loop(node, args, env)
    function = overload(node.op)
    assert function is not None, node
    named = {argument.name: arg for argument, arg in zip(function._schema.arguments, args, strict=True) if argument.kwarg_only}
    result = function(*args[: len(args) - len(named)], **named)
    results = list(result) if isinstance(result, (list, tuple)) else [] if result is None and not node.outputs else [result]
    return [one.contiguous() if isinstance(one, torch.Tensor) else one for one in results]  # as ONNX's, which know no strides


def _loop(node: Node, args: list[Any], env: dict[Value, Any]) -> list[Any]:
    trips, going, *carried = args
    (block,) = node.blocks
    index = 0
    while going and (trips is None or index < trips):
        going, *carried = _run(block, {**env, **dict(zip(block.inputs, [index, *carried], strict=True))})
        index += 1
    return carried


def check_types(graph: Graph, inputs: Sequence[Any]) -> None:
    """Fail where a value's type differs from that of its tensor in this run."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True)) | dict(graph.params)
    _run(graph, env)
    for value, found in env.items():
        if isinstance(found, torch.Tensor):
            assert value.type.dtype in (found.dtype, None), (value, found.dtype)
            sizes = value.type.sizes
            assert sizes is None or len(sizes) == found.dim(), (value, found.shape)
            assert sizes is None or all(isinstance(a, SymbolicSize) or a == b for a, b in zip(sizes, found.shape, strict=True)), (
                value,
                found.shape,
            )
