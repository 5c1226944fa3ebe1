"""`prim::If`: the branch taken if that is known, else both branches, merged."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import CaptureError, Graph, ScalarType, TensorType, Value
from onnxexp_torchscript import unknown_length_lists
from onnxexp_torchscript.abstract_tensor import UNKNOWN
from onnxexp_torchscript.export_time_values import UNINITIALIZED, Items, Journal, Maybe, restore
from onnxexp_torchscript.interpreter import Interpreter
from onnxexp_torchscript.python_numbers import Number, is_number, unwrap, wrap

__all__ = ["Raised", "if_", "kind_of", "placeholder"]


class Raised(CaptureError):
    """An exception that the program raises for all inputs: its text and place."""

    def __init__(self, error: CaptureError, what: str) -> None:
        super().__init__(str(error))
        self.what = what


def if_(interpreter: Interpreter, node: Any) -> list[Any]:
    """Convert a `prim::If`."""
    condition = unwrap(interpreter.args(node)[0])
    blocks = list(node.blocks())
    known = interpreter.truth(condition)
    if known is not None:
        return interpreter.block(blocks[0 if known else 1])
    ways = [_way(interpreter, block) for block in blocks]
    if ways[0] is None and ways[1] is None:
        error = interpreter.refuse("every path through this branch raises", "give inputs that it accepts")
        raise Raised(error, f"an exception on either way at {interpreter.where}")
    for way, block in zip(ways, reversed(blocks), strict=True):
        if way is None:
            return interpreter.block(block)  # what only raises has no place in ONNX; the other way is taken
    return _Join(interpreter, condition, *(way for way in ways if way is not None)).join(node)


class _Way:
    """A branch: its graph, its results, and its changes to outer lists and dicts."""

    def __init__(self, graph: Graph, results: list[Any], changes: list[tuple[Any, Any, Any]]) -> None:
        self.graph = graph
        self.results = results
        self.changed = {id(container): (container, before, after) for container, before, after in changes}


def _way(interpreter: Interpreter, block: Any) -> _Way | None:
    """Convert a branch; None if it only raises."""
    graph = Graph()
    with interpreter.journal.stretch() as entries:
        try:
            with interpreter.writing_to(graph):
                results = interpreter.block(block)
        except Raised as raised:
            interpreter.unraised[raised.what] = None
            return None
        finally:
            changes = Journal.changes(entries)
            Journal.undo(entries)
    return _Way(graph, results, changes)


class _Join:
    """The merge of two branches."""

    def __init__(self, interpreter: Interpreter, condition: Any, one: _Way, other: _Way) -> None:
        self.interpreter = interpreter
        self.condition = condition
        self.ways = (one, other)
        self.outputs: list[Value] = []

    def join(self, node: Any) -> list[Any]:
        one, other = self.ways
        results = [self.of(a, b) for a, b in zip(one.results, other.results, strict=True)]
        held = []
        for key in {**one.changed, **other.changed}:
            container, before, _ = one.changed.get(key) or other.changed[key]
            after = [way.changed[key][2] if key in way.changed else before for way in self.ways]
            held.append((container, self._container(*after)))
        for container, now in held:
            self.interpreter.journal.note(container)
            restore(container, now)
        graphs = [way.graph for way in self.ways]
        if self.outputs or any(graph.nodes for graph in graphs):
            self.interpreter.append("prim::If", [self.condition], self.outputs, blocks=graphs)
        return results

    def _container(self, one: Any, other: Any) -> Any:
        if isinstance(one, dict):
            return self._dict(one, other)
        return self.of(one, other)

    def _dict(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        if one.keys() != other.keys():
            attributes = one is not other and all(isinstance(key, tuple) for key in {**one, **other})
            if not attributes:
                raise self.interpreter.refuse("a dict has different keys after the two branches", "give both the same keys")
            for key in {**one, **other}:
                for side in (one, other):
                    side.setdefault(key, self.interpreter.stored(*key))
        return {key: self.of(one[key], other[key]) for key in one}

    def of(self, one: Any, other: Any) -> Any:
        """Merge a variable that is `one` in the first branch, `other` in the second."""
        if one is other or (type(one) is type(other) and _is_plain(one) and one == other):
            return one
        if one is None or other is None or isinstance(one, Maybe) or isinstance(other, Maybe):
            absent = self.of(*(side is None or (side.absent if isinstance(side, Maybe) else False) for side in (one, other)))
            values = [UNINITIALIZED if side is None else side.value if isinstance(side, Maybe) else side for side in (one, other)]
            return Maybe(absent, self.of(*values))
        if one is UNINITIALIZED or other is UNINITIALIZED:
            return self._half(one, other)
        if isinstance(one, Items) and isinstance(other, Items):
            return self._lists(one, other)
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return tuple(self.of(a, b) for a, b in zip(one, other, strict=True))
        if isinstance(one, dict) and isinstance(other, dict):
            return self._dict(one, other)
        if is_number(one) and is_number(other):
            return self._numbers(one, other)
        return self._tensors(one, other)

    def _half(self, one: Any, other: Any) -> Any:
        """Merge a variable that one branch leaves unassigned."""
        known = other if one is UNINITIALIZED else one
        if isinstance(known, (tuple, dict)):
            parts = list(known.values()) if isinstance(known, dict) else list(known)
            nothing = [UNINITIALIZED] * len(parts)
            joined = [
                self.of(*pair)
                for pair in (zip(nothing, parts, strict=True) if known is other else zip(parts, nothing, strict=True))
            ]
            return dict(zip(known, joined, strict=True)) if isinstance(known, dict) else tuple(joined)
        if not isinstance(known, (Value, Number, Items, bool, int, float)):
            return known
        filler = self._in(0 if known is other else 1, lambda: placeholder(self.interpreter, known))
        return self.of(filler, known) if known is other else self.of(known, filler)

    def _in(self, way: int, make: Any) -> Any:
        with self.interpreter.writing_to(self.ways[way].graph):
            return make()

    def _lists(self, one: Items, other: Items) -> Items:
        if one.sequence is None and other.sequence is None and len(one) == len(other):
            return self.interpreter.items(self.of(a, b) for a, b in zip(one, other, strict=True))
        element = unknown_length_lists.common_element(self.interpreter, one, other)
        values = [
            self._in(index, lambda side=side: unknown_length_lists.as_sequence(self.interpreter, side, element))
            for index, side in enumerate((one, other))
        ]
        output = self.interpreter.value("prim::If", UNKNOWN)
        self._out(values[0], values[1], output)
        return self.interpreter.items((), output, element)

    def _numbers(self, one: Any, other: Any) -> Any:
        wrapped = isinstance(one, Number) or isinstance(other, Number)
        kinds = [kind_of(unwrap(side)) for side in (one, other)]
        kind = next((kind for kind in (float, int) if kind in kinds), bool)
        output = self.interpreter.value("prim::If", self.interpreter.sizes.unbacked.any_number(kind))
        values = [unwrap(side) if isinstance(unwrap(side), Value) else kind(unwrap(side)) for side in (one, other)]
        self._out(values[0], values[1], output)
        return wrap(output) if wrapped else output

    def _tensors(self, one: Any, other: Any) -> Any:
        sides = [
            self._in(index, lambda side=side: unknown_length_lists.as_tensor(self.interpreter, side))
            for index, side in enumerate((one, other))
        ]
        if not all(isinstance(side, Value) for side in sides):
            raise self.interpreter.refuse(
                f"a variable is {_say(one)} after one branch and {_say(other)} after the other",
                "give both branches the same kind",
            )
        output = self.interpreter.value("prim::If", self.interpreter.joined(sides[0], sides[1], "the branches of an if"))
        self._out(sides[0], sides[1], output)
        return output

    def _out(self, one: Any, other: Any, output: Value) -> None:
        for way, side in zip(self.ways, (one, other), strict=True):
            way.graph.outputs.append(side)
        self.outputs.append(output)


def _is_plain(thing: Any) -> bool:
    return isinstance(thing, (bool, int, float, str, torch.dtype, torch.device))


def _say(thing: Any) -> str:
    return str(thing.type) if isinstance(thing, Value) else f"a {type(thing).__name__.lower()}"


def kind_of(number: Any) -> type:
    """Return bool, int or float."""
    if isinstance(number, Value):
        assert isinstance(number.type, ScalarType)
        return number.type.kind
    return type(number)


def placeholder(interpreter: Interpreter, like: Any) -> Any:
    """Create a placeholder of the same type, for an unread variable."""
    if isinstance(like, Items):
        if like.sequence is None:
            return interpreter.items(placeholder(interpreter, element) for element in like)
        return interpreter.items((), unknown_length_lists.empty(interpreter, like.element), like.element)
    if is_number(like):
        return kind_of(unwrap(like))(0)
    assert isinstance(like, Value) and isinstance(like.type, TensorType)
    sizes = [size if isinstance(size, int) else 1 for size in like.type.sizes or ()]
    if like.type.dtype is None:
        raise interpreter.refuse("a variable that only some branches assign has no known dtype", "assign it in every branch")
    return interpreter.constant(torch.zeros(sizes, dtype=like.type.dtype))
