"""Objects that exist at export only: lists, optional values, texts, modules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxexp.graph import Graph, Value
from onnxexp_torchscript.types.abstract_tensor import expr_of, static_truth, symbols_of


class _Uninitialized:
    """The value of a variable that this branch leaves unassigned."""

    def __repr__(self) -> str:
        return "uninitialized"


UNINITIALIZED = _Uninitialized()


class Items(list[Any]):
    """A TorchScript list.

    Attributes:
        sequence: The value of the list where its length is known only at run time; the Python list is empty then.
        element: The fake that stands for an element of the sequence.
        axis: The axis of the elements where the value is a tensor; None for an ONNX sequence.
        collecting: The body of the loop that only appends to it; the Python list has the elements that one round appends.
        split: The tensor, the size of a piece and the axis of a sequence that is as ``split`` returned it.
    """

    __slots__ = ("axis", "collecting", "element", "sequence", "split")

    def __init__(
        self,
        items: Any = (),
        sequence: Value | None = None,
        element: Any = None,
        axis: int | None = None,
        collecting: Graph | None = None,
        split: tuple[Value, Any, int] | None = None,
    ) -> None:
        super().__init__(items)
        self.sequence = sequence
        self.element = element
        self.axis = axis
        self.collecting = collecting
        self.split = split

    def become(self, other: Items) -> None:
        """Take over the contents of another list."""
        self[:] = other
        self.sequence, self.element = other.sequence, other.element
        self.axis, self.collecting, self.split = other.axis, other.collecting, other.split

    def copy(self) -> Items:
        return Items(self, self.sequence, self.element, self.axis, self.collecting, self.split)


class Maybe:
    """A value that is None where `absent` (a bool, or a value of it) is true."""

    __slots__ = ("absent", "value")

    def __init__(self, absent: Any, value: Any) -> None:
        self.absent = absent
        self.value = value


class Presence:
    """The optional values that are None, or are not, in a branch that tests them."""

    def __init__(self) -> None:
        self._flags: set[Any] = set()
        self._assumed: dict[Any, bool] = {}

    def tests(self, absent: Any) -> None:
        """Record the fake of a bool that states whether a value is None."""
        self._flags |= symbols_of(absent)

    @contextlib.contextmanager
    def assuming(self, condition: Any, truth: bool) -> Iterator[None]:
        """Take a branch of a test: its condition has this truth inside the context."""
        outer, symbols = self._assumed, symbols_of(condition)
        if symbols and symbols <= self._flags:  # any other condition may change, where a loop writes into a tensor
            self._assumed = outer | {expr_of(condition): truth, sympy.Not(expr_of(condition)): not truth}
        try:
            yield
        finally:
            self._assumed = outer

    def truth(self, condition: Any) -> bool | None:
        """Return the truth of a fake condition here, or None if it is not known."""
        if not isinstance(condition, (bool, torch.SymBool)):
            return None
        known = static_truth(condition)
        return self._assumed.get(expr_of(condition)) if known is None else known


class Text(str):
    """A text with run-time parts, which can be printed or raised only."""

    __slots__ = ()


class Module:
    """A ScriptModule, or another TorchScript object, with its path."""

    __slots__ = ("object", "path")

    def __init__(self, object: Any, path: str = "") -> None:
        self.object = object
        self.path = path


class Journal:
    """The undo log of lists and dicts."""

    def __init__(self) -> None:
        self._open: list[dict[int, tuple[Any, Any]]] = []

    def note(self, container: Any) -> None:
        """Record a list or dict before it changes."""
        for entry in self._open:
            if id(container) not in entry:
                entry[id(container)] = container, container.copy()

    def created(self, container: Any) -> None:
        """Record a new list or dict."""
        for entry in self._open:
            entry[id(container)] = container, None

    @contextlib.contextmanager
    def stretch(self) -> Iterator[dict[int, tuple[Any, Any]]]:
        """Open a scope; yield its entries by id: container and old contents, None if new."""
        entries: dict[int, tuple[Any, Any]] = {}
        self._open.append(entries)
        try:
            yield entries
        finally:
            self._open.pop()

    @staticmethod
    def changes(entries: dict[int, tuple[Any, Any]]) -> list[tuple[Any, Any, Any]]:
        """List the changed older containers, with old and new contents."""
        return [(container, before, container.copy()) for container, before in entries.values() if before is not None]

    @staticmethod
    def undo(entries: dict[int, tuple[Any, Any]]) -> None:
        """Restore all containers."""
        for container, before in entries.values():
            if before is not None:
                restore(container, before)


def restore(container: Any, held: Any) -> None:
    """Restore a list or dict from a copy."""
    if isinstance(container, Items):
        container.become(held)
    else:
        container.clear()
        container.update(held)


def flatten(ivalue: Any) -> tuple[list[Any], Any]:
    """Flatten nested objects to leaves and a comparable structure."""
    if isinstance(ivalue, Items) and ivalue.sequence is None:
        parts = [flatten(element) for element in ivalue]
        return _together(parts), ("list", tuple(structure for _, structure in parts))
    if isinstance(ivalue, tuple):
        parts = [flatten(element) for element in ivalue]
        return _together(parts), ("tuple", tuple(structure for _, structure in parts))
    if isinstance(ivalue, dict):
        parts = [flatten(element) for element in ivalue.values()]
        return _together(parts), ("dict", tuple(ivalue), tuple(structure for _, structure in parts))
    if isinstance(ivalue, Maybe):
        leaves, structure = flatten(ivalue.value)
        return [ivalue.absent, *leaves], ("maybe", structure)
    return [ivalue], ("none",) if ivalue is None else ("leaf",)


def _together(parts: list[tuple[list[Any], Any]]) -> list[Any]:
    return [leaf for leaves, _ in parts for leaf in leaves]


def build(structure: Any, leaves: Iterator[Any], created: Callable[[Any], None] = lambda container: None) -> Any:
    """Rebuild nested objects from leaves and structure.

    `created` is called with each new list and dict.
    """
    kind = structure[0]
    if kind == "list":
        made = Items(build(part, leaves, created) for part in structure[1])
        created(made)
        return made
    if kind == "tuple":
        return tuple(build(part, leaves, created) for part in structure[1])
    if kind == "dict":
        entries = {key: build(part, leaves, created) for key, part in zip(structure[1], structure[2], strict=True)}
        created(entries)
        return entries
    if kind == "maybe":
        absent = next(leaves)
        return Maybe(absent, build(structure[1], leaves, created))
    return next(leaves)
