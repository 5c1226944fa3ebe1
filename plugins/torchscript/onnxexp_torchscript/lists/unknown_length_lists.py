"""Lists of unknown length: ONNX sequences (since opset 11), or a tensor axis."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from onnxexp.graph import TensorType, Value
from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.export_time_values import Items
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number, unwrap
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor


def as_tensor(interpreter: Interpreter, ivalue: Any) -> Any:
    """Convert a number or tensor to a value; return anything else as it is."""
    if isinstance(ivalue, Number):
        return python_numbers.as_tensor(interpreter, ivalue)
    return ivalue


def fake_of(interpreter: Interpreter, ivalue: Any) -> Any:
    """Return the fake of an element."""
    ivalue = unwrap(ivalue)
    if isinstance(ivalue, Value):
        fake, type_ = interpreter.sizes.of(ivalue), ivalue.type
        return TensorType(type_.dtype, None) if fake is UNKNOWN and isinstance(type_, TensorType) and type_.dtype else fake
    if isinstance(ivalue, (bool, int, float)):
        return interpreter.sizes.unbacked.any_number(type(ivalue))
    raise interpreter.refuse(
        f"a list of unknown length contains a {'list' if isinstance(ivalue, Items) else type(ivalue).__name__.lower()}",
        "keep tensors or numbers in it, or make its length fixed",
    )


def joined_element(interpreter: Interpreter, one: Any, other: Any) -> Any:
    """Create a fake that covers two elements, or their type if the ranks differ.

    None stands for no element.
    """
    if one is None or other is None or one is other:
        return other if one is None else one
    ranked = not isinstance(one, TensorType) and not isinstance(other, TensorType)
    joined = interpreter.sizes.joined(one, other) if ranked else UNKNOWN
    tensors = [each for each in (one, other) if isinstance(each, (AbstractTensor, TensorType))]
    if joined is UNKNOWN and len(tensors) == 2 and tensors[0].dtype == tensors[1].dtype:
        return TensorType(tensors[0].dtype, None)
    return joined


def common_element(interpreter: Interpreter, *lists: Items) -> Any:
    """Create a fake that covers the elements of several lists."""
    element = None
    for items in lists:
        fakes = [items.element] if items.sequence is not None else [fake_of(interpreter, item) for item in items]
        for fake in fakes:
            element = joined_element(interpreter, element, fake)
    return element


def _dtype(element: Any) -> torch.dtype:
    if isinstance(element, (AbstractTensor, TensorType)) and element.dtype is not None:
        return element.dtype
    kinds = {torch.SymBool: torch.bool, torch.SymFloat: torch.float32, torch.SymInt: torch.int64}
    return next((dtype for kind, dtype in kinds.items() if isinstance(element, kind)), torch.float32)


def empty(interpreter: Interpreter, element: Any) -> Value:
    """Emit an empty sequence."""
    return _make(interpreter, "prim::SequenceConstruct", [[], _dtype(element)])


def as_sequence(interpreter: Interpreter, items: Items, element: Any = None) -> Value:
    """Convert a list to a sequence value."""
    _whole(interpreter, items)
    if items.sequence is not None and items.axis is not None:
        return split(interpreter, items.sequence, 1, items.axis, keepdims=False).sequence  # type: ignore[return-value]
    if items.sequence is not None:
        return items.sequence
    if not items:
        return empty(interpreter, element)
    for item in items:
        fake_of(interpreter, item)  # refuses what cannot be an element
    dtype = _dtype(element if element is not None else common_element(interpreter, items))
    return _make(interpreter, "prim::SequenceConstruct", [[unwrap(item) for item in items], dtype])


def _whole(interpreter: Interpreter, items: Items) -> None:
    """Raise CaptureError for a list that a loop is collecting."""
    if items.collecting is not None:
        raise interpreter.refuse("a loop reads the list that it appends to", "read the list after the loop")


def _make(interpreter: Interpreter, name: str, args: list[Any]) -> Value:
    output = interpreter.value(name, UNKNOWN)
    interpreter.append(name, args, [output])
    return output


def promote(interpreter: Interpreter, items: Items) -> None:
    """Convert a list to an ONNX sequence in place."""
    if items.sequence is None or items.axis is not None:
        interpreter.journal.note(items)
        element = common_element(interpreter, items) if items.sequence is None and items else items.element
        items.become(Items((), as_sequence(interpreter, items, element), element))


def insert(interpreter: Interpreter, items: Items, ivalue: Any, position: Any = None) -> None:
    """Insert an element into a sequence, by default at the end."""
    if items.collecting is interpreter.graph and position is None:
        items.append(ivalue)
        return
    promote(interpreter, items)
    element = joined_element(interpreter, items.element, fake_of(interpreter, ivalue))
    assert items.sequence is not None
    value = _make(interpreter, "prim::SequenceInsert", [items.sequence, unwrap(ivalue), unwrap(position)])
    items.become(Items((), value, element))


def remove(interpreter: Interpreter, items: Items, position: Any = None) -> None:
    """Remove an element from a sequence, by default the last."""
    promote(interpreter, items)
    value = _make(interpreter, "prim::SequenceErase", [items.sequence, unwrap(position)])
    items.become(Items((), value, items.element))


def extend(interpreter: Interpreter, items: Items, more: Items) -> None:
    """Append the elements of a list of unknown length."""
    joined = common_element(interpreter, items, more)
    promote(interpreter, items)
    value = _make(interpreter, "prim::SequenceExtend", [items.sequence, as_sequence(interpreter, more, joined)])
    items.become(Items((), value, joined))


def sliced(interpreter: Interpreter, items: Items, start: Any, end: Any, step: int) -> Items:
    """Slice a list whose length, or a bound of the slice, is known only at run time.

    A negative step reverses the whole list.
    """
    _whole(interpreter, items)
    if items.axis is not None and step > 0:
        part = interpreter.emit("aten::slice.Tensor", [items.sequence, items.axis, start, end, step])
        return interpreter.items((), part, items.element, items.axis)
    element = common_element(interpreter, items)
    args = [as_sequence(interpreter, items, element), start, end, step, _dtype(element)]
    return interpreter.items((), _make(interpreter, "prim::SequenceSlice", args), element)


def get(interpreter: Interpreter, items: Items, position: Any) -> Value:
    """Return one element of a list of unknown length."""
    _whole(interpreter, items)
    if items.axis is not None:
        element = interpreter.emit("aten::select.int", [items.sequence, items.axis, unwrap(position)])
        return element if _is_tensor(items.element) else interpreter.emit("aten::item", [element])  # type: ignore[no-any-return]
    if items.element is None:
        raise interpreter.refuse("the program reads an element of a list before the first append", "append first")
    name, args = "prim::SequenceAt", [items.sequence, unwrap(position)]
    if items.split is not None and isinstance(position, int):
        name, args = "aten::slice.Tensor", _piece(interpreter, *items.split, position)
    output = interpreter.value(name, _anew(interpreter, items.element))
    interpreter.append(name, args, [output])
    return output


def _piece(interpreter: Interpreter, tensor: Value, step: Any, axis: int, position: int) -> list[Any]:
    """Return the arguments of the slice that is one piece of a split tensor."""
    count: Any = 0
    if position < 0:
        longer = interpreter.number("aten::add", operator.add, [interpreter.size(tensor, axis), step])
        count = interpreter.number("aten::sub", operator.sub, [longer, 1])
        count = interpreter.number("aten::floordiv", operator.floordiv, [count, step])
    place = interpreter.number("aten::add", operator.add, [count, position])
    start = interpreter.number("aten::mul", operator.mul, [place, step])
    end = None if position == -1 else interpreter.number("aten::add", operator.add, [start, step])
    return [tensor, axis, unwrap(start), unwrap(end), 1]


def _anew(interpreter: Interpreter, element: Any) -> Any:
    """Copy an element's fake, with new symbols for unbacked sizes and numbers."""
    if isinstance(element, AbstractTensor):
        return interpreter.sizes.renewed(element)
    if element is UNKNOWN or isinstance(element, TensorType):
        return element
    return interpreter.sizes.unbacked.any_number(interpreter.sizes.type_of(element).kind)  # type: ignore[union-attr]


def length(interpreter: Interpreter, items: Items) -> Value:
    """Return the length of a list of unknown length."""
    _whole(interpreter, items)
    if items.axis is not None:
        return interpreter.size(items.sequence, items.axis)  # type: ignore[no-any-return]
    output = interpreter.value("prim::SequenceLength", interpreter.sizes.unbacked.any_number(int))
    interpreter.append("prim::SequenceLength", [items.sequence], [output])
    return output


def concatenated(interpreter: Interpreter, items: Items, dim: Any, *, new_axis: bool) -> Value:
    """Concatenate or stack a list of unknown length."""
    _whole(interpreter, items)
    rank = interpreter.rank(items.sequence)
    if items.axis is not None and rank is not None:
        return _joined(interpreter, items, dim % (rank if new_axis else rank - 1), rank, new_axis=new_axis)
    promote(interpreter, items)
    element = items.element
    fake: Any = UNKNOWN
    if isinstance(element, AbstractTensor):
        sizes: list[Any] = list(element.shape)
        axis = dim % (len(sizes) + new_axis)
        if new_axis:
            sizes.insert(axis, None)
        else:
            sizes[axis] = None
        fake = interpreter.sizes.unbacked.tensor(element.dtype, sizes)
    elif element is not None and element is not UNKNOWN and not isinstance(element, TensorType):
        fake = interpreter.sizes.unbacked.tensor(_dtype(element), [None])
    output = interpreter.value("prim::SequenceConcat", fake)
    interpreter.append("prim::SequenceConcat", [items.sequence, dim, new_axis], [output])
    return output


def _joined(interpreter: Interpreter, items: Items, dim: int, rank: int, *, new_axis: bool) -> Value:
    """Stack or concatenate the slices of a tensor along an axis."""
    axes = [axis for axis in range(rank) if axis != items.axis]
    axes.insert(dim, items.axis or 0)
    made = interpreter.emit("aten::clone", [items.sequence, None])
    moved = made if items.axis == dim else interpreter.emit("aten::permute", [made, axes])
    return moved if new_axis else interpreter.emit("aten::flatten.using_ints", [moved, dim, dim + 1])  # type: ignore[no-any-return]


def unbound(interpreter: Interpreter, tensor: Value, axis: int) -> Items:
    """List the slices of a tensor along an axis of unknown size."""
    fake = interpreter.sizes.of(tensor)
    if not _is_tensor(fake):
        return split(interpreter, tensor, 1, axis, keepdims=False)
    sizes: list[Any] = list(fake.shape)
    del sizes[axis]
    return interpreter.items((), tensor, interpreter.sizes.unbacked.tensor(fake.dtype, sizes), axis)


def _is_tensor(fake: Any) -> bool:
    return isinstance(fake, AbstractTensor)


def split(interpreter: Interpreter, tensor: Value, size: Any, dim: int, *, keepdims: bool) -> Items:
    """Split or unbind a tensor along an axis of unknown size."""
    pieces = _pieces(interpreter, "prim::SplitToSequence", [tensor, unwrap(size), dim, keepdims], keepdims=keepdims)
    pieces.split = (tensor, size, dim) if keepdims else None
    return pieces


def chunks(interpreter: Interpreter, tensor: Value, count: Any, dim: int) -> Items:
    """Chunk a tensor along an axis of unknown size."""
    return _pieces(interpreter, "prim::ChunkToSequence", [tensor, unwrap(count), dim], keepdims=True)


def _pieces(interpreter: Interpreter, name: str, args: list[Any], *, keepdims: bool) -> Items:
    tensor, dim = args[0], args[2]
    output = _make(interpreter, name, args)
    fake = interpreter.sizes.of(tensor)
    element: Any = UNKNOWN
    if fake is not UNKNOWN:
        sizes: list[Any] = list(fake.shape)
        if keepdims:
            sizes[dim] = None
        else:
            del sizes[dim]
        element = interpreter.sizes.unbacked.tensor(fake.dtype, sizes)
    return interpreter.items((), output, element)


def split_at(interpreter: Interpreter, tensor: Any, places: Any, dim: int = 0) -> Any:
    """Convert ``tensor_split`` by a tensor of indices."""
    count = interpreter.size(places, 0) if interpreter.rank(places) == 1 else None
    if not isinstance(count, int):
        return NotImplemented
    inner = [interpreter.emit("aten::item", [interpreter.emit("aten::select.int", [places, 0, at])]) for at in range(count)]
    bounds = [0, *inner, None]
    return interpreter.items(
        interpreter.emit("aten::slice.Tensor", [tensor, dim, start, end, 1]) for start, end in itertools.pairwise(bounds)
    )
