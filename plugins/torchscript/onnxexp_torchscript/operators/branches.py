"""`prim::If`: the branch taken if that is known, else both branches, merged."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp import CaptureError
from onnxexp.graph import Graph, ScalarType, TensorType, Value
from onnxexp_torchscript.conversion.export_time_values import UNINITIALIZED, Items, Journal, Maybe, restore
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number, is_number, unwrap, wrap
from onnxexp_torchscript.lists import unknown_length_lists
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor, expr_of


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
    ways = [
        _way(interpreter, functools.partial(interpreter.block, block), condition, taken)
        for block, taken in zip(blocks, (True, False), strict=True)
    ]
    if ways[0] is None and ways[1] is None:
        error = interpreter.refuse("every path through this branch raises", "give inputs that it accepts")
        raise Raised(error, f"an exception on either way at {interpreter.where}")
    for way, block in zip(ways, reversed(blocks), strict=True):
        if way is None:
            return interpreter.block(block)  # what only raises has no place in ONNX; the other way is taken
    return _Join(interpreter, condition, *(way for way in ways if way is not None)).join()


class _Way:
    """A branch: its graph, its results, and its changes to outer lists and dicts."""

    def __init__(self, graph: Graph, results: list[Any], changes: list[tuple[Any, Any, Any]]) -> None:
        self.graph = graph
        self.results = results
        self.changed = {id(container): (container, before, after) for container, before, after in changes}


def with_optionals(interpreter: Interpreter, schema: str, args: list[Any], call: Callable[[list[Any]], Any]) -> Any:
    """Call an operator with arguments that may be None.

    Where its schema takes None, a `prim::If` has a call with None and one without. An operator on lists or dicts gets the
    optional value itself.
    """
    declared = [argument.type for argument in torch._C.parse_schema(schema).arguments]
    args = [_settled(interpreter, *pair) if isinstance(pair[0], Maybe) else pair[0] for pair in zip(args, declared, strict=True)]
    kinds = enumerate(zip(args, declared, strict=True))
    place = next((at for at, (arg, of) in kinds if isinstance(arg, Maybe) and of.kind() == "OptionalType"), None)
    if place is None:
        return call(args)

    def way(given: Any, taken: bool) -> _Way:
        others = [*args[:place], given, *args[place + 1 :]]
        made = _way(interpreter, lambda: [with_optionals(interpreter, schema, others, call)], args[place].absent, taken)
        assert made is not None  # an operator is no `raise`
        return made

    return _Join(interpreter, args[place].absent, way(None, True), way(args[place].value, False)).join()[0]


def _settled(interpreter: Interpreter, arg: Maybe, declared: Any) -> Any:
    """Return None or the value where this branch or the parameter decides it."""
    if declared.kind() not in ("OptionalType", "VarType"):
        return arg.value
    if isinstance(arg.absent, Value):
        interpreter.presence.tests(interpreter.sizes.of(arg.absent))
    absent = interpreter.truth(arg.absent)
    return arg if absent is None else None if absent else arg.value


def _way(interpreter: Interpreter, convert: Callable[[], list[Any]], condition: Any, taken: bool) -> _Way | None:
    """Convert a branch; return None if it only raises."""
    graph = Graph()
    with interpreter.journal.stretch() as entries:
        try:
            taking = interpreter.presence.assuming(interpreter.sizes.of(condition), taken)
            with interpreter.writing_to(graph), interpreter.sizes.branch(), taking:
                results = convert()
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
        self.flags: dict[tuple[bool, bool], Any] = {}

    def join(self) -> list[Any]:
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
        one, other = self._narrowed(one, True), self._narrowed(other, False)
        if one is None or other is None or isinstance(one, Maybe) or isinstance(other, Maybe):
            absent = self._absent(*(side is None or (side.absent if isinstance(side, Maybe) else False) for side in (one, other)))
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

    def _absent(self, one: Any, other: Any) -> Any:
        """Merge two flags: one for all variables that are None on the same way."""
        if not isinstance(one, bool) or not isinstance(other, bool):
            return self.of(one, other)
        if (one, other) not in self.flags:
            self.flags[one, other] = self.of(one, other)
        return self.flags[one, other]

    def _narrowed(self, ivalue: Any, taken: bool) -> Any:
        """Return an optional value as it is on one way, where the condition tests it."""
        if not isinstance(ivalue, Maybe) or not isinstance(ivalue.absent, Value):
            return ivalue
        of, presence = self.interpreter.sizes.of, self.interpreter.presence
        with presence.assuming(of(self.condition), taken):
            absent = presence.truth(of(ivalue.absent))
        return ivalue if absent is None else None if absent else ivalue.value

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
        if not isinstance(known, (Value, Number, Items)):  # a constant: nothing reads the other
            return known
        filler = self._in(0 if known is other else 1, lambda: placeholder(self.interpreter, known))
        fake = fake_of_unread(self.interpreter, known)
        if fake is not None:
            output = self.interpreter.value("prim::If", fake)
            one, other = (filler, known) if known is other else (known, filler)
            self._out(one, other, output)
            return output
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
                f"a variable is {_description(one)} after one branch and {_description(other)} after the other",
                "give both branches the same kind",
            )
        output = self.interpreter.value("prim::If", joined(self.interpreter, sides[0], sides[1], "the branches of an if"))
        self._out(sides[0], sides[1], output)
        return output

    def _out(self, one: Any, other: Any, output: Value) -> None:
        for way, side in zip(self.ways, (one, other), strict=True):
            way.graph.outputs.append(side)
        self.outputs.append(output)


def _is_plain(ivalue: Any) -> bool:
    return isinstance(ivalue, (bool, int, float, str, torch.dtype, torch.device))


def _description(ivalue: Any) -> str:
    return str(ivalue.type) if isinstance(ivalue, Value) else f"a {type(ivalue).__name__.lower()}"


def joined(interpreter: Interpreter, one: Value, other: Value, what: str) -> Any:
    """Create a fake that covers two tensors, or a type without a rank if ranks differ.

    Raises CaptureError if their dtypes differ.
    """
    types = [side.type for side in (one, other)]
    dtypes = [type_.dtype for type_ in types if isinstance(type_, TensorType)]
    if len(dtypes) == 2 and None not in dtypes and dtypes[0] != dtypes[1]:
        raise interpreter.refuse(f"{what} give a tensor of {dtypes[0]} and one of {dtypes[1]}", "cast one of them")
    fake = interpreter.sizes.joined(interpreter.sizes.of(one), interpreter.sizes.of(other))
    return fake if isinstance(fake, AbstractTensor) else TensorType(next(filter(None, dtypes), None), None)


def kind_of(number: Any) -> type:
    """Return bool, int or float."""
    if isinstance(number, Value):
        assert isinstance(number.type, ScalarType)
        return number.type.kind
    return type(number)


def fake_of_unread(interpreter: Interpreter, like: Any) -> AbstractTensor | None:
    """Return the fake of a tensor, for a variable whose placeholder is not read.

    Returns None where a size is known only inside of a branch or a loop.
    """
    fake = interpreter.sizes.of(like) if isinstance(like, Value) else None
    if not isinstance(fake, AbstractTensor) or any(free_unbacked_symbols(expr_of(size)) for size in fake.shape):
        return None
    return fake


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


def unassigned(interpreter: Interpreter, like: Any) -> Any:
    """Create the value of a variable before its first assignment."""
    return placeholder(interpreter, like) if isinstance(like, (Value, Number, Items, bool, int, float)) else like


def fitted(start: Any, now: Any) -> Any:
    """Convert a variable to an optional one if it is optional before the loop."""
    if isinstance(start, tuple) and isinstance(now, tuple) and len(start) == len(now):
        return tuple(fitted(a, b) for a, b in zip(start, now, strict=True))
    if not isinstance(start, Maybe):
        return now
    if isinstance(now, Maybe):
        return Maybe(now.absent, fitted(start.value, now.value))
    return Maybe(True, start.value) if now is None else Maybe(False, fitted(start.value, now))
