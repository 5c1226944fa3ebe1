"""Sizes as expressions of input sizes (``2*batch + 1``), computed in the graph."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from typing import Any

from onnxexp._builder.tensor import GraphBuilder, Tensor
from onnxexp._neutral_graph import Dim

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div"}
"""Div rounds towards zero, as FloorDiv does here: sizes are not negative, nor is any dividend of torch.export's expressions."""


def compute_size(op: GraphBuilder, inputs: Sequence[Tensor], size: Dim) -> int | Tensor | None:
    """Compute a size as a number or 0-d int64 tensor.

    Returns None if `inputs` do not determine it.
    """
    if isinstance(size, int):
        return size
    value: int | Tensor | None = _value(op, inputs, ast.parse(_identifiers(size), mode="eval").body)
    return value


def _identifiers(size: str) -> str:
    """Turn names such as ``past.0_dim_1``, from nested inputs, into Python names."""
    return re.sub(r"[A-Za-z_][\w.]*", lambda name: name[0].replace(".", "__"), size)


def _value(op: GraphBuilder, inputs: Sequence[Tensor], node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    found = _from_graph_input(op, inputs, ast.unparse(node))
    if found is not None or not isinstance(node, (ast.BinOp, ast.Call)):
        return found
    operands = node.args if isinstance(node, ast.Call) else [node.left, node.right]
    values = [_value(op, inputs, operand) for operand in operands]
    kind = ast.unparse(node.func) if isinstance(node, ast.Call) else type(node.op)
    if None in values or len(values) == 1:  # a function of one size, such as TruncToInt, has no operator here
        return None
    return functools.reduce(functools.partial(_combined, op, kind), values)


def _combined(op: GraphBuilder, kind: Any, one: Any, other: Any) -> Any:
    first = op.constant(one)
    if kind in ("max", "min"):  # ONNX's own take no int64 before opset 12
        pair = (first, other) if kind == "min" else (other, first)
        return op.call("", "Where", op.call("", "Less", first, other), *pair)
    if kind is ast.Pow and isinstance(other, int) and other > 0:
        return functools.reduce(lambda left, right: op.call("", "Mul", left, right), [first] * other)
    return op.call("", _OPERATORS[kind], first, other) if kind in _OPERATORS else None


def _from_graph_input(op: GraphBuilder, inputs: Sequence[Tensor], size: str) -> Tensor | None:
    """Read the size from an input that has it on an axis."""
    for tensor in inputs:
        shape = [_identifiers(str(one)) for one in tensor.known_shape or ()]
        if size in shape:
            found: Tensor = op.Gather(op.Shape(tensor), shape.index(size), axis=0)
            return found
    return None
