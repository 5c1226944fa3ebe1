"""Sizes that are expressions of the inputs' sizes (``2*batch + 1``), computed in the graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from onnxexp.graph import Dim

if TYPE_CHECKING:
    from onnxexp.builder import Builder
    from onnxexp.values import Tensor

__all__ = ["extent"]

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div"}
"""Of what is divided here nothing is negative: sizes, and what torch.export has proven to be none below zero."""


def extent(op: Builder, size: Dim) -> int | Tensor | None:
    """A size as a number, or as a 0-d int64 tensor; None where the sizes of the model's inputs do not tell it."""
    if isinstance(size, int):
        return size
    try:
        parsed = ast.parse(size, mode="eval").body
    except SyntaxError:  # a name with dots and digits in it, which may yet be an input's size
        return _measured(op, size)
    value: int | Tensor | None = _value(op, parsed)
    return value


def _value(op: Builder, node: ast.expr) -> Any:
    text = ast.unparse(node)
    found = _measured(op, text)
    if found is not None or not isinstance(node, (ast.BinOp, ast.Constant)):
        return found
    if isinstance(node, ast.Constant):
        return node.value
    left, right = _value(op, node.left), _value(op, node.right)
    name = _OPERATORS.get(type(node.op))
    return None if left is None or right is None or name is None else op.call("", name, op.constant(left), right)


def _measured(op: Builder, size: str) -> Tensor | None:
    """The size where an axis of an input has it."""
    scope = op.state.scope
    while scope.parent is not None:
        scope = scope.parent
    for value in scope.inputs:
        shape = op.state.tensors[value].known_shape
        if shape is not None and size in shape:
            found: Tensor = op.Gather(op.Shape(op.state.tensors[value]), shape.index(size), axis=0)
            return found
    return None
