"""Sizes as expressions of input sizes (``2*batch + 1``), computed in the graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from onnxexp._builder.tensor import GraphBuilder, Tensor
from onnxexp._neutral_graph import Dim
from onnxexp._symbolic_size import SymbolicSize, Tree, evaluate, parsed

_OPERATORS = {"+": "Add", "-": "Sub", "*": "Mul", "//": "Div"}
"""Div rounds towards zero, as // does here: sizes are not negative, nor is any dividend of torch.export's expressions."""


def compute_size(op: GraphBuilder, inputs: Sequence[Tensor], size: Dim) -> int | Tensor | None:
    """Compute a size as a number or 0-d int64 tensor.

    Returns None if `inputs` do not determine it.
    """
    if isinstance(size, int):
        return size
    axes = {
        parsed(each.text): (tensor, axis)
        for tensor in reversed(inputs)
        for axis, each in reversed([*enumerate(tensor.known_shape or ())])
        if isinstance(each, SymbolicSize)
    }

    def from_input(part: Tree) -> Any:
        if part not in axes:
            return None
        tensor, axis = axes[part]
        return op.Gather(op.Shape(tensor), axis, axis=0)

    computed: int | Tensor | None = evaluate(size.text, from_input, lambda number: number, functools.partial(_apply, op))
    return computed


def _apply(op: GraphBuilder, kind: str, values: Sequence[Any]) -> Any:
    if kind == "neg":
        return _combined(op, "-", 0, *values)
    if len(values) == 1:  # a function of one size, such as TruncToInt, has no operator here
        return None
    return functools.reduce(functools.partial(_combined, op, kind), values)


def _combined(op: GraphBuilder, kind: str, one: Any, other: Any) -> Any:
    first = op.constant(one)
    if kind in ("max", "min"):  # ONNX's own take no int64 before opset 12
        pair = (first, other) if kind == "min" else (other, first)
        return op.call("", "Where", op.call("", "Less", first, other), *pair)
    if kind == "**" and isinstance(other, int) and other > 0:
        return functools.reduce(lambda left, right: op.call("", "Mul", left, right), [first] * other)
    return op.call("", _OPERATORS[kind], first, other) if kind in _OPERATORS else None
