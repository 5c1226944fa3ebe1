"""Sizes that are expressions of the inputs' sizes (``2*batch + 1``), computed in the graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from onnxexp.graph import Dim

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder
    from onnxexp.builder.tensor import Tensor

__all__ = ["extent"]

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div"}
"""Of what is divided here nothing is negative: sizes, and what torch.export has proven to be none below zero."""


def extent(op: Builder, size: Dim) -> int | Tensor | None:
    """A size as a number, or as a 0-d int64 tensor; None where the sizes of the model's inputs do not tell it."""
    if isinstance(size, int):
        return size
    value: int | Tensor | None = _value(op, ast.parse(_identifiers(size), mode="eval").body)
    return value


def _identifiers(size: str) -> str:
    """The text with names as Python has them: those of inputs inside others have dots and digits (``past.0_dim_1``)."""
    return size.replace(".", "__")


def _value(op: Builder, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    found = _measured(op, ast.unparse(node))
    if found is not None or not isinstance(node, ast.BinOp):
        return found
    left, right = _value(op, node.left), _value(op, node.right)
    name = _OPERATORS.get(type(node.op))
    return None if left is None or right is None or name is None else op.call("", name, op.constant(left), right)


def _measured(op: Builder, size: str) -> Tensor | None:
    """The size where an axis of an input has it."""
    scope = op.state.scope
    while scope.parent is not None:
        scope = scope.parent
    for value in scope.inputs:
        shape = [_identifiers(str(one)) for one in op.state.tensors[value].known_shape or ()]
        if size in shape:
            found: Tensor = op.Gather(op.Shape(op.state.tensors[value]), shape.index(size), axis=0)
            return found
    return None
