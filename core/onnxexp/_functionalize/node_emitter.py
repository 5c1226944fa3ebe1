"""Emit nodes: calls bound to torch's schemas, sizes, casts and broadcasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from onnxexp._functionalize.mutation import MutationInfo
from onnxexp._neutral_graph import Dim, Node, ScalarType, TensorType, Type, Value
from onnxexp._source_location import SourceLocation
from onnxexp._torch_ops.schemas import bind

END = 2**63 - 1
"""The end of a slice up to the end, for any size."""


class Emitter:
    """Append nodes to the graph that is being rewritten.

    Attributes:
        nodes: The nodes so far.
        static: Whether the graph's inputs have fixed sizes. If not, a fixed size may come from a slice of a dynamic axis, and a
            pre pass needs that slice.
    """

    def __init__(self, static: bool) -> None:
        self.nodes: list[Node] = []
        self.static = static
        self._value_count = 0

    def value(self, name: str, type_: Type) -> Value:
        """Make a value whose name is derived from another's."""
        self._value_count += 1
        return Value(f"{name}_f{self._value_count}", type_)

    def call(self, op: str, args: Sequence[Any], output: Value, where: SourceLocation) -> Value:
        """Append a call, bound to the schema of `op`; return its output."""
        self.nodes.append(Node(op, bind(MutationInfo.of(op).schema, args, {}), [output], where=where))
        return output

    def size(self, value: Value, dim: int, where: SourceLocation) -> int | Value:
        """Return a size of a tensor: a number if it is static, else a new node's value."""
        sizes = value.type.sizes if isinstance(value.type, TensorType) else None
        size = sizes[dim] if sizes is not None else None
        if isinstance(size, int):
            return size
        return self.call("aten::sym_size.int", [value, dim], self.value(f"{value.name}_size", ScalarType(int, size)), where)

    def add(self, one: int | Value, other: int | Value, where: SourceLocation) -> int | Value:
        """Add two sizes."""
        if isinstance(one, int) and isinstance(other, int):
            return one + other
        if other == 0:
            return one
        if one == 0:
            return other
        return self.call("aten::add.int", [one, other], self.value("end", ScalarType(int)), where)

    def cast(self, value: Value, type_: TensorType, where: SourceLocation, like: Callable[[], Value]) -> Value:
        """Cast `value` to the dtype of `type_`, to that of `like()` if it is unknown."""
        assert isinstance(value.type, TensorType)
        if type_.dtype is not None and value.type.dtype == type_.dtype:
            return value
        result = self.value(value.name, TensorType(type_.dtype, value.type.sizes))
        if type_.dtype is None:
            return self.call("aten::type_as", [value, like()], result, where)
        return self.call("aten::to.dtype", [value, type_.dtype], result, where)

    def expand(self, value: Value, type_: TensorType, where: SourceLocation, like: Callable[[], Value]) -> Value:
        """Broadcast `value` to the sizes of `type_`, to those of `like()` if unknown."""
        assert isinstance(value.type, TensorType)
        if same_sizes(value.type.sizes, type_.sizes) and (self.static or 1 not in (type_.sizes or ())):
            return value
        result = self.value(value.name, TensorType(value.type.dtype, type_.sizes))
        if self.static and is_static(type_.sizes):
            return self.call("aten::expand", [value, list(type_.sizes or ())], result, where)
        return self.call("aten::expand_as", [value, like()], result, where)


def same_sizes(one: Iterable[Dim] | None, other: Iterable[Dim] | None) -> bool:
    """Return whether two shapes are certainly the same."""
    return one is not None and other is not None and tuple(one) == tuple(other)


def is_static(sizes: Sequence[Dim] | None) -> bool:
    """Return whether all sizes are known numbers."""
    return sizes is not None and all(isinstance(size, int) for size in sizes)


def differ(one: Sequence[Dim] | None, other: Sequence[Dim] | None, symbols: Set[Dim] = frozenset()) -> bool:
    """Return whether two shapes are certainly different.

    Two of `symbols` are different, and so are one of them and a number.
    """
    if one is None or other is None:
        return False
    if len(one) != len(other):
        return True

    def is_certain(size: Dim) -> bool:
        return isinstance(size, int) or size in symbols

    return any(left != right and is_certain(left) and is_certain(right) for left, right in zip(one, other, strict=True))
