"""Lower lists of unknown length, ``prim::Sequence…`` nodes, to ONNX sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.builder import operands
from onnxexp.graph import Node
from onnxexp.lowering.lowering import Lowering, NodeLowering

__all__ = ["LOWERINGS"]

_FIRST_OPSET = 11
"""The first opset with sequences."""


def _sequence_op(emit: Callable[..., Any]) -> NodeLowering:
    """Make the lowering of an operator; `emit` takes the builder and the node's arguments."""

    def lower(lowering: Lowering, node: Node) -> list[Any]:
        op = lowering.builder
        if op.opset < _FIRST_OPSET:
            op.opset_error(
                f"a list whose length is known only at run time needs ONNX's sequences, there from opset {_FIRST_OPSET} on; "
                f"the target is opset {op.opset}",
                _FIRST_OPSET,
            )
        return [emit(op, *(lowering.resolve(arg) for arg in node.args))]

    return lower


def _construct(op: Any, elements: list[Any], dtype: torch.dtype) -> Any:
    """Make a sequence; `dtype` is that of an empty one."""
    return op.SequenceConstruct(*(operands.tensor(op, each) for each in elements)) if elements else op.SequenceEmpty(dtype=dtype)


def _position(op: Any, position: Any) -> Any:
    return None if position is None else op.constant(position, torch.int64)


def _split(op: Any, tensor: Any, size: Any, axis: int, keepdims: bool) -> Any:
    return op.SplitToSequence(tensor, op.constant(size, torch.int64) if keepdims else None, axis=axis, keepdims=int(keepdims))


LOWERINGS: dict[str, NodeLowering] = {
    "prim::SequenceConstruct": _sequence_op(_construct),
    "prim::SequenceInsert": _sequence_op(
        lambda op, sequence, element, index: op.SequenceInsert(sequence, operands.tensor(op, element), _position(op, index))
    ),
    "prim::SequenceErase": _sequence_op(lambda op, sequence, index: op.SequenceErase(sequence, _position(op, index))),
    "prim::SequenceAt": _sequence_op(lambda op, sequence, index: op.SequenceAt(sequence, _position(op, index))),
    "prim::SequenceLength": _sequence_op(lambda op, sequence: op.SequenceLength(sequence)),
    "prim::SequenceConcat": _sequence_op(
        lambda op, sequence, dim, new_axis: op.ConcatFromSequence(sequence, axis=dim, new_axis=int(new_axis))
    ),
    "prim::SplitToSequence": _sequence_op(_split),
}
