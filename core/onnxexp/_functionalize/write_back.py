"""Make views again from their parents, and write them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from onnxexp._functionalize.node_emitter import Emitter
from onnxexp._functionalize.places import Ref, refuse
from onnxexp._neutral_graph import TensorType, Value
from onnxexp._source_location import SourceLocation

_Contents: TypeAlias = Callable[[Ref], Value]


def _listed(arg: Any) -> Any:
    return [_listed(element) for element in arg] if isinstance(arg, tuple) else arg


class _Writing:
    """One step of a write back, after `value` has been written to `ref`.

    `read` returns the current value of a place, `peek` any value with its size and dtype.
    """

    def __init__(self, emit: Emitter, read: _Contents, peek: _Contents, ref: Ref, value: Value, where: SourceLocation) -> None:
        assert ref.parent is not None and ref.view is not None
        self.emit, self.read, self.peek, self.ref, self.value, self.where = emit, read, peek, ref, value, where
        self.parent, self.op = ref.parent, ref.view.op
        self.args = [_listed(arg) for arg in ref.view.args]

    def call(self, op: str, *args: Any, type_: TensorType | None = None) -> Value:
        type_ = type_ or self.parent.type
        return self.emit.call(op, args, self.emit.value(self.parent.name, type_), self.where)

    def scatter(self) -> Value:
        return self.call(_SCATTERS[self.op], self.read(self.parent), self.value, *self.args)

    def reshape(self) -> Value:
        sizes = self.parent.type.sizes
        unknown = [index for index, size in enumerate(sizes or ()) if not isinstance(size, int)]
        if sizes is None or len(unknown) > 1 or (unknown and 0 in sizes):
            return self.call("aten::reshape_as", self.value, self.peek(self.parent))
        return self.call("aten::reshape", self.value, [size if isinstance(size, int) else -1 for size in sizes])

    def permute(self) -> Value:
        dims = [dim % len(self.args[0]) for dim in self.args[0]]
        return self.call("aten::permute", self.value, [dims.index(dim) for dim in range(len(dims))])

    def squeeze(self) -> Value:
        """Undo ``squeeze.dim``, which has no effect unless the size is 1."""
        sizes, dim = self.parent.type.sizes, self.args[0]
        if sizes is None or not isinstance(sizes[dim], int) or len(sizes) == len(self.ref.type.sizes or ()):
            return self.reshape()
        return self.call("aten::unsqueeze", self.value, dim)

    def expand(self) -> Value:
        """Undo ``expand`` of one number everywhere, where all copies of a row are equal."""
        before, after = self.parent.type.sizes, self.ref.type.sizes
        if before is None or after is None:
            refuse("a write through expand to a tensor of unknown rank", self.where, "clone() the expanded tensor first")
        value, added = self.value, len(after) - len(before)
        for index in range(added):
            value = self.call("aten::select.int", value, 0, 0, type_=TensorType(self.ref.type.dtype, after[index + 1 :]))
        sizes = list(after[added:])
        for dim, size in enumerate(before):
            if size != sizes[dim]:
                sizes[dim] = size
                value = self.call("aten::slice.Tensor", value, dim, 0, 1, type_=TensorType(self.ref.type.dtype, tuple(sizes)))
        return value

    def part(self, *, imaginary: bool) -> Value:
        """Undo ``real`` or ``imag``, without a change of the other part."""
        other = self.emit.value(self.parent.name, self.ref.type)
        self.emit.call("aten::real" if imaginary else "aten::imag", [self.read(self.parent)], other, self.where)
        return self.call("aten::complex", *((other, self.value) if imaginary else (self.value, other)))


_SCATTERS = {
    "aten::slice.Tensor": "aten::slice_scatter",
    "aten::select.int": "aten::select_scatter",
    "aten::diagonal": "aten::diagonal_scatter",
    "aten::as_strided": "aten::as_strided_scatter",
}
"""Views of a part, and the operator that puts the part back."""

_WRITE_BACK: dict[str, Callable[[_Writing], Value]] = {
    **dict.fromkeys(_SCATTERS, _Writing.scatter),
    "aten::permute": _Writing.permute,
    **{
        f"aten::{name}.{kind}": lambda writing: writing.call(writing.op, writing.value, *reversed(writing.args))
        for name in ("movedim", "moveaxis")
        for kind in ("int", "intlist")
    },
    **{
        f"aten::{name}": lambda writing: writing.call(writing.op, writing.value, *writing.args)
        for name in ("t", "transpose.int", "mT", "numpy_T", "_conj")
    },
    "aten::unsqueeze": lambda writing: writing.call("aten::squeeze.dim", writing.value, *writing.args),
    "aten::squeeze.dim": _Writing.squeeze,
    **{
        f"aten::{name}": _Writing.reshape
        for name in [
            *("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "ravel", "view_as"),
            *("reshape_as", "squeeze", "squeeze.dims", "atleast_1d", "atleast_2d", "atleast_3d"),
        ]
    },
    **{f"aten::{name}": _Writing.expand for name in ("expand", "expand_as", "broadcast_to")},
    "aten::view_as_real": lambda writing: writing.call("aten::view_as_complex", writing.value),
    "aten::view_as_complex": lambda writing: writing.call("aten::view_as_real", writing.value),
    "aten::real": lambda writing: writing.part(imaginary=False),
    "aten::imag": lambda writing: writing.part(imaginary=True),
}
"""The write back of each view into its parent."""


def make_view(emit: Emitter, parent: Value, ref: Ref) -> Value:
    """Make the value of a view from its parent's value."""
    assert ref.view is not None
    value, ref.first = ref.first or emit.value(ref.name, ref.type), None
    return emit.call(ref.view.op, [parent, *map(_listed, ref.view.args)], value, ref.where)


def can_write(ref: Ref, uniform: bool) -> bool:
    """Return whether `write_back` handles the view of a place.

    Only one number (`uniform`) can be written through an expanded view.
    """
    undo = _WRITE_BACK.get(ref.view.op) if ref.view is not None else None
    if ref.view is not None and ref.view.op == "aten::as_strided" and not uniform and not are_apart(*ref.view.args[:2]):
        return False  # one write changes several elements
    return undo is not None and (uniform or undo is not _Writing.expand)


def are_apart(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Return whether all elements of a view by strides are certainly apart in memory."""
    if not all(isinstance(stride, int) for stride in strides):
        return False
    last: Any = 0  # the last element that the smaller strides reach; None where a size is not known
    for stride, size in sorted(zip(strides, sizes, strict=True), key=lambda axis: int(axis[0])):
        if isinstance(size, int) and size <= 1:
            continue
        if last is None or stride <= last:
            return False
        last = last + (size - 1) * stride if isinstance(size, int) else None
    return True


def is_part(ref: Ref) -> bool:
    """Return whether a place is only a part of its parent."""
    return ref.view is not None and ref.view.op in _SCATTERS


def write_back(emit: Emitter, read: _Contents, peek: _Contents, ref: Ref, value: Value, where: SourceLocation) -> Value:
    """Compute the parent's value after `value` was written to the place."""
    assert ref.view is not None
    return _WRITE_BACK[ref.view.op](_Writing(emit, read, peek, ref, value, where))
