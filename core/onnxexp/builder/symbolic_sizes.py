"""Sizes as expressions of input sizes (``2*batch + 1``), computed in the graph."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any

from onnxexp.builder.internal_builder_protocol import GraphBuilder
from onnxexp.builder.tensor import Tensor
from onnxexp.neutral_graph import Dim

__all__ = ["compute_size"]

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div"}
"""Div rounds towards zero, as FloorDiv does here: sizes are not negative, nor is any dividend of torch.export's expressions."""


def compute_size(op: GraphBuilder, inputs: Sequence[Tensor], size: Dim) -> int | Tensor | None:
    """A size as a number or 0-d int64 tensor, None if `inputs` do not determine it."""
    if isinstance(size, int):
        return size
    value: int | Tensor | None = _value(op, inputs, ast.parse(_identifiers(size), mode="eval").body)
    return value


def _identifiers(size: str) -> str:
    """Turn names such as ``past.0_dim_1``, from nested inputs, into Python names."""
    return size.replace(".", "__")


def _value(op: GraphBuilder, inputs: Sequence[Tensor], node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    found = _from_graph_input(op, inputs, ast.unparse(node))
    if found is not None:
        return found
    if isinstance(node, ast.BinOp):
        return _of_two(op, type(node.op), _value(op, inputs, node.left), _value(op, inputs, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
        return functools.reduce(functools.partial(_extreme, op, node.func.id), (_value(op, inputs, arg) for arg in node.args))
    return None


def _of_two(op: GraphBuilder, operator: type[ast.operator], left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if operator is ast.Pow and isinstance(right, int) and right > 0:
        return functools.reduce(lambda one, other: op.call("", "Mul", one, other), [left] * right)
    name = _OPERATORS.get(operator)
    return None if name is None else op.call("", name, op.constant(left), right)


def _extreme(op: GraphBuilder, name: str, one: Any, other: Any) -> Any:
    """The larger or smaller of two; ONNX's own Max and Min lack int64 before opset 12."""
    if one is None or other is None:
        return None
    one, other = op.constant(one), op.constant(other)
    pair = (one, other) if name == "min" else (other, one)
    return op.call("", "Where", op.call("", "Less", one, other), *pair)


def _from_graph_input(op: GraphBuilder, inputs: Sequence[Tensor], size: str) -> Tensor | None:
    """The size where an axis of an input has it."""
    for tensor in inputs:
        shape = [_identifiers(str(one)) for one in tensor.known_shape or ()]
        if size in shape:
            found: Tensor = op.Gather(op.Shape(tensor), shape.index(size), axis=0)
            return found
    return None
