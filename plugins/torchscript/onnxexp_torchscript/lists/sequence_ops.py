"""Lower lists of unknown length to sequences, optional results to optionals.

The nodes are ``prim::Sequence…``, ``prim::SplitToSequence``, ``prim::Optional…`` and ``prim::Zeros``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import Builder
from onnxexp.graph import Node, TensorType

_FIRST_OPSET = 11
"""The first opset with sequences."""
_FIRST_WITH_OPTIONALS = 16
"""The first opset whose If may return an optional."""


def lower_sequence(op: Builder, node: Node) -> Any:
    """Lower a node on a sequence or an optional; return None for any other node.

    Raises OpsetError before opset 11, and for an optional before opset 16.
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
    """Make a sequence; `dtype` is the dtype of an empty one."""
    return op.SequenceConstruct(*map(op.constant, elements)) if elements else op.SequenceEmpty(dtype=dtype)


def _position(op: Builder, position: Any) -> Any:
    return None if position is None else op.constant(position, torch.int64)


def _split(op: Builder, tensor: Any, size: Any, axis: int, keepdims: bool) -> Any:
    if not keepdims:
        return op.SplitToSequence(tensor, None, axis=axis, keepdims=0)
    return op.SplitToSequence(tensor, _lengths(op, tensor, size, axis), axis=axis, keepdims=1)


def _extend(op: Builder, sequence: Any, more: Any) -> Any:
    def body(index: Any, made: Any) -> tuple[Any, list[Any], list[Any]]:
        return None, [op.SequenceInsert(made, op.SequenceAt(more, index))], []

    return op.loop(op.SequenceLength(more), None, body, [sequence])[0]


def _slice(op: Builder, sequence: Any, start: Any, end: Any, step: int, dtype: torch.dtype) -> Any:
    """Copy every `step`-th element; a negative step reverses the whole sequence."""
    length = op.SequenceLength(sequence)
    first = _bound(op, start, 0, length)
    count = op.Max(op.Sub(_bound(op, end, length, length), first), 0)
    rounds = count if abs(step) == 1 else op.Div(op.Add(count, step - 1), step)

    def body(index: Any, made: Any) -> tuple[Any, list[Any], list[Any]]:
        place = op.Add(first, op.Mul(index, step)) if step > 0 else op.Sub(op.Sub(length, 1), index)
        return None, [op.SequenceInsert(made, op.SequenceAt(sequence, place))], []

    return op.loop(rounds, None, body, [op.SequenceEmpty(dtype=dtype)])[0]


def _bound(op: Builder, given: Any, default: Any, length: Any) -> Any:
    """Return a bound of a slice, inside the list; negative ones count from the end."""
    place = op.constant(default if given is None else given, torch.int64)
    return op.Max(op.Min(op.Where(op.Less(place, 0), op.Add(place, length), place), length), 0)


def _lengths(op: Builder, tensor: Any, size: Any, axis: int) -> Any:
    """Compute the lengths of the pieces.

    ONNX splits an empty axis into no piece, and torch into one empty piece.
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
    tensor = op.constant(value)
    shape = TensorType(None, tensor.shape)
    sizes = None if tensor.shape is None else ir.Shape([size if isinstance(size, int) else size.text for size in tensor.shape])
    type_ = ir.TypeAndShape(ir.TensorType(ir.tensor_adapters.from_torch_dtype(dtype)), sizes)

    def made(*of: Any) -> list[Any]:
        optional = op.Optional(*of, type=type_)
        optional.fill(shape)
        return [optional]

    if isinstance(absent, bool):
        return made(*[tensor] * (not absent))[0]
    return op.if_(absent, made, lambda: made(tensor))[0]


def _element(op: Builder, optional: Any, present: Any, dtype: torch.dtype) -> Any:
    """Return an optional's element, or zeros of its sizes that nothing reads."""
    type_ = op.node.outputs[0].type

    def filler() -> list[Any]:
        is_tensor = isinstance(type_, TensorType) and type_.dtype is not None
        return [_zeros(op, dtype) if is_tensor else op.SequenceEmpty(dtype=dtype)]

    return op.if_(present, lambda: [op.OptionalGetElement(optional)], filler)[0]


def _zeros(op: Builder, dtype: torch.dtype) -> Any:
    """Make zeros of the sizes of the node's output."""
    type_ = op.node.outputs[0].type
    sizes = [op.size_of(size) for size in (type_.sizes if isinstance(type_, TensorType) else None) or ()]
    zero = op.constant(torch.zeros((), dtype=dtype))
    return op.Expand(zero, [1 if size is None else size for size in sizes]) if sizes else zero


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
        "prim::SequenceExtend": _extend,
        "prim::SequenceSlice": _slice,
        "prim::SplitToSequence": _split,
        "prim::Optional": _optional,
        "prim::Zeros": _zeros,
        "prim::OptionalHasElement": lambda op, optional: op.OptionalHasElement(optional),
        "prim::OptionalGetElement": _element,
    }
)
