"""Lower lists of unknown length to sequences, optional results to optionals.

The nodes are ``prim::Sequence…``, ``prim::SplitToSequence`` and ``prim::Optional``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import Builder, Node

__all__ = ["lower_sequence"]

_FIRST_OPSET = 11
"""The first opset with sequences."""
_FIRST_WITH_OPTIONALS = 16
"""The first opset whose If may return an optional."""


def lower_sequence(op: Builder, node: Node) -> Any:
    """Lower a node on a sequence or an optional; return None for any other node.

    Raises OpsetError before opset 11, for an optional before opset 16.
    """
    emit = _OPERATORS.get(node.op)
    if emit is None:
        return None
    if op.opset < _FIRST_OPSET:
        op.opset_error(
            f"a list whose length is known only at run time needs ONNX's sequences, there from opset {_FIRST_OPSET} on; "
            f"the target is opset {op.opset}",
            _FIRST_OPSET,
        )
    return emit(op, *op.args)


def _construct(op: Builder, elements: list[Any], dtype: torch.dtype) -> Any:
    """Make a sequence; `dtype` is that of an empty one."""
    return op.SequenceConstruct(*map(op.constant, elements)) if elements else op.SequenceEmpty(dtype=dtype)


def _position(op: Builder, position: Any) -> Any:
    return None if position is None else op.constant(position, torch.int64)


def _split(op: Builder, tensor: Any, size: Any, axis: int, keepdims: bool) -> Any:
    if not keepdims:
        return op.SplitToSequence(tensor, None, axis=axis, keepdims=0)
    return op.SplitToSequence(tensor, _lengths(op, tensor, size, axis), axis=axis, keepdims=1)


def _lengths(op: Builder, tensor: Any, size: Any, axis: int) -> Any:
    """Compute the lengths of the pieces.

    ONNX splits an empty axis into no piece, torch into an empty one.
    """
    whole = op.Gather(op.Shape(tensor), [axis], axis=0)
    before = op.Div(op.Sub(whole, op.cast(op.Greater(whole, 0), torch.int64)), size)
    return _with_rest(op, whole, size, before)


def _with_rest(op: Builder, whole: Any, size: Any, before: Any) -> Any:
    return op.Concat(op.Expand(op.constant(size, torch.int64), before), op.Sub(whole, op.Mul(before, size)), axis=0)


def _chunk(op: Builder, tensor: Any, count: Any, axis: int) -> Any:
    """Split into at most `count` pieces; an empty axis has `count` empty ones."""
    whole = op.Gather(op.Shape(tensor), [axis], axis=0)
    filled = op.cast(op.Greater(whole, 0), torch.int64)
    size, empty = op.Div(op.Add(whole, op.Sub(count, 1)), count), op.Sub(1, filled)
    before = op.Add(op.Div(op.Sub(whole, filled), op.Add(size, empty)), op.Mul(op.Sub(count, 1), empty))
    return op.SplitToSequence(tensor, _with_rest(op, whole, size, before), axis=axis, keepdims=1)


def _optional(op: Builder, absent: Any, value: Any, dtype: torch.dtype) -> Any:
    """Make an optional tensor that is empty where `absent` is true."""
    if op.opset < _FIRST_WITH_OPTIONALS:
        op.opset_error(
            f"a result that is None or a tensor, depending on the inputs, needs ONNX's optionals, there from opset "
            f"{_FIRST_WITH_OPTIONALS} on; the target is opset {op.opset}",
            _FIRST_WITH_OPTIONALS,
        )
    type_ = ir.TypeAndShape(ir.TensorType(ir.tensor_adapters.from_torch_dtype(dtype)), None)
    return op.if_(absent, lambda: [op.Optional(type=type_)], lambda: [op.Optional(op.constant(value))])[0]


_OPERATORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "prim::SequenceConstruct": _construct,
        "prim::SequenceInsert": lambda op, sequence, element, index: op.SequenceInsert(
            sequence, op.constant(element), _position(op, index)
        ),
        "prim::SequenceErase": lambda op, sequence, index: op.SequenceErase(sequence, _position(op, index)),
        "prim::SequenceAt": lambda op, sequence, index: op.SequenceAt(sequence, _position(op, index)),
        "prim::SequenceLength": lambda op, sequence: op.SequenceLength(sequence),
        "prim::SequenceConcat": lambda op, sequence, dim, new_axis: op.ConcatFromSequence(
            sequence, axis=dim, new_axis=int(new_axis)
        ),
        "prim::ChunkToSequence": _chunk,
        "prim::SplitToSequence": _split,
        "prim::Optional": _optional,
    }
)
