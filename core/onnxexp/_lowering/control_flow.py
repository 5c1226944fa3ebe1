"""Lower prim::If, prim::Loop and prim::Scan to ONNX's If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxexp._builder import operands
from onnxexp._lowering.lowering import Lowering, NodeLowering
from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Type, Value


def _if(lowering: Lowering, node: Node) -> list[Any]:
    """Lower prim::If, to one branch alone if the condition is known at export."""
    op, cond = lowering.builder, lowering.resolve(node.args[0])
    if op.is_static(cond):
        return lowering.block(node.blocks[0 if op.static(cond) else 1])
    then, otherwise = node.blocks

    def branch(block: Graph) -> Callable[[], Sequence[Any]]:
        return lambda: _typed(lowering, lowering.block(block), node.outputs)

    return list(op.if_(cond, branch(then), branch(otherwise))) if node.outputs else []


def _typed(lowering: Lowering, results: Sequence[Any], outputs: Sequence[Value]) -> list[Any]:
    """Cast the results of a block to the dtypes of the node's outputs."""
    op = lowering.builder
    typed = []
    for result, output in zip(results, outputs, strict=True):
        tensor = operands.tensor(op, result)
        dtype = output.type.dtype if isinstance(output.type, TensorType) else None
        typed.append(op.cast(tensor, dtype) if dtype is not None else tensor)
    return typed


def _loop(lowering: Lowering, node: Node) -> list[Any]:
    op, block = lowering.builder, node.blocks[0]
    trips, cond, *carried = (lowering.resolve(arg) for arg in node.args)
    types: list[Type] = [value.type for value in block.inputs[1:]]

    def body(index: Any, *values: Any) -> tuple[Any, Sequence[Any], Sequence[Any]]:
        lowering.bind(block.inputs[0], index)
        for value, tensor in zip(block.inputs[1:], values, strict=True):
            lowering.bind(value, tensor)
        going, *after = lowering.block(block)
        stacked = _typed(lowering, after[len(carried) :], node.outputs[len(carried) :])
        return going, _typed(lowering, after[: len(carried)], block.inputs[1:]), stacked

    return op.loop(
        trips, cond, body, [_start(lowering, arg, type_) for arg, type_ in zip(carried, types, strict=True)], types=types
    )


def _start(lowering: Lowering, arg: Any, type_: Type) -> Any:
    if isinstance(type_, TensorType) and type_.dtype is not None:
        return lowering.builder.cast(arg, type_.dtype)
    if isinstance(type_, ScalarType) and isinstance(arg, (bool, int, float)):
        return lowering.builder.constant(type_.kind(arg))
    return arg


def _scan(lowering: Lowering, node: Node) -> list[Any]:
    op, block = lowering.builder, node.blocks[0]
    init, xs = (lowering.resolve(arg) for arg in node.args)

    def body(*values: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        for value, tensor in zip(block.inputs, values, strict=True):
            lowering.bind(value, tensor)
        results = lowering.block(block)
        return _typed(lowering, results[: len(init)], block.inputs[: len(init)]), results[len(init) :]

    return op.scan(body, init, [operands.tensor(op, x) for x in xs])


LOWERINGS: dict[str, NodeLowering] = {"prim::If": _if, "prim::Loop": _loop, "prim::Scan": _scan}
