"""Lower lists of unknown length, ``prim::Sequence…`` nodes, to ONNX sequences."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp.builder import operands
from onnxexp.graph import Node
from onnxexp.lowering.lowering import Lowering, NodeLowering

__all__ = ["LOWERINGS"]

_FIRST_OPSET = 11
"""The first opset with sequences."""


def _checked(lowering: Lowering) -> Any:
    op = lowering.builder
    if op.opset < _FIRST_OPSET:
        op.opset_error(
            f"a list whose length is known only at run time needs ONNX's sequences, there from opset {_FIRST_OPSET} on; "
            f"the target is opset {op.opset}",
            _FIRST_OPSET,
        )
    return op


def _construct(lowering: Lowering, node: Node) -> list[Any]:
    """Args: the elements, and the dtype of an empty sequence."""
    op = _checked(lowering)
    elements, dtype = (lowering.resolve(arg) for arg in node.args)
    if not elements:
        return [op.SequenceEmpty(dtype=dtype)]
    return [op.SequenceConstruct(*(operands.tensor(op, element) for element in elements))]


def _insert(lowering: Lowering, node: Node) -> list[Any]:
    op = _checked(lowering)
    sequence, element, position = (lowering.resolve(arg) for arg in node.args)
    return [op.SequenceInsert(sequence, operands.tensor(op, element), *_position(op, position))]


def _erase(lowering: Lowering, node: Node) -> list[Any]:
    op = _checked(lowering)
    sequence, position = (lowering.resolve(arg) for arg in node.args)
    return [op.SequenceErase(sequence, *_position(op, position))]


def _at(lowering: Lowering, node: Node) -> list[Any]:
    op = _checked(lowering)
    sequence, position = (lowering.resolve(arg) for arg in node.args)
    return [op.SequenceAt(sequence, *_position(op, position))]


def _position(op: Any, position: Any) -> list[Any]:
    return [] if position is None else [op.constant(position, torch.int64)]


def _length(lowering: Lowering, node: Node) -> list[Any]:
    op = _checked(lowering)
    return [op.SequenceLength(lowering.resolve(node.args[0]))]


def _concat(lowering: Lowering, node: Node) -> list[Any]:
    op = _checked(lowering)
    sequence, dim, new_axis = (lowering.resolve(arg) for arg in node.args)
    return [op.ConcatFromSequence(sequence, axis=dim, new_axis=int(new_axis))]


def _split(lowering: Lowering, node: Node) -> list[Any]:
    """Args: the tensor, the size of a piece, the axis, and keepdims."""
    op = _checked(lowering)
    tensor, size, axis, keepdims = (lowering.resolve(arg) for arg in node.args)
    if keepdims:
        return [op.SplitToSequence(tensor, op.constant(size, torch.int64), axis=axis, keepdims=1)]
    return [op.SplitToSequence(tensor, axis=axis, keepdims=0)]


LOWERINGS: dict[str, NodeLowering] = {
    "prim::SequenceConstruct": _construct,
    "prim::SequenceInsert": _insert,
    "prim::SequenceErase": _erase,
    "prim::SequenceAt": _at,
    "prim::SequenceLength": _length,
    "prim::SequenceConcat": _concat,
    "prim::SplitToSequence": _split,
}
