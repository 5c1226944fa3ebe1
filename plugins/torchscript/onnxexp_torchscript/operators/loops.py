"""`prim::Loop`: unroll it if short, else convert its body until types settle."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxexp import CaptureError
from onnxexp.graph import Graph, TensorType, Value
from onnxexp_torchscript.conversion.export_time_values import UNINITIALIZED, Items, Journal, Maybe, build, flatten, restore
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number, is_number, unwrap, wrap
from onnxexp_torchscript.lists import unknown_length_lists
from onnxexp_torchscript.lists.loop_lists import Collected, collectable, extended_lists, with_extended
from onnxexp_torchscript.operators.branches import fake_of_unread, fitted, joined, kind_of, unassigned
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor

_NODES = 4000
"""How many nodes a loop may unroll to."""
_FOREVER = 2**63 - 1
_READINGS = 16
"""How often a body is converted before the types of its state must be stable."""


def loop(interpreter: Interpreter, node: Any) -> list[Any]:
    """Convert a `prim::Loop`."""
    trips, condition, *carried = interpreter.args(node)
    trips, condition = unwrap(trips), unwrap(condition)
    (block,) = node.blocks()
    unrolled = _unroll(interpreter, block, trips, condition, carried, _NODES)
    if unrolled is not None:
        return unrolled
    try:
        return _Rolled(interpreter, block, trips, condition, carried).read()
    except CaptureError:
        unrolled = _unroll(interpreter, block, trips, condition, carried, 10 * _NODES)
        if unrolled is None:
            raise
        return unrolled


def _unroll(interpreter: Interpreter, block: Any, trips: Any, condition: Any, carried: list[Any], limit: int) -> list[Any] | None:
    """Unroll a loop; return None if its trip count is unknown or too large."""
    going = interpreter.truth(condition)
    if isinstance(trips, Value) or going is None:
        return None
    nodes, start = interpreter.graph.nodes, len(interpreter.graph.nodes)
    with interpreter.journal.stretch() as entries:
        done = 0
        while going and done < trips:
            going, *carried = _round(interpreter, block, [done, *carried])
            going = interpreter.truth(unwrap(going))
            done += 1
            size = len(nodes) - start
            if going is None or size > limit or done > limit or (trips < _FOREVER and size * trips // done > limit):
                Journal.undo(entries)
                del nodes[start:]
                interpreter.forget(nodes)
                return None
    return carried


def _round(interpreter: Interpreter, block: Any, given: list[Any]) -> list[Any]:
    for value, what in zip(block.inputs(), given, strict=True):
        interpreter.env[value.unique()] = what
    return interpreter.block(block)


class _Slot:
    """One leaf of a loop's state.

    `start` is its value before the loop; one that nothing reads has its fake in `unread`. A `fixed` leaf never changes; any
    other has the fake `fake` inside the body.
    """

    def __init__(self, interpreter: Interpreter, start: Any, unread: Mapping[Value, Any] = MappingProxyType({})) -> None:
        self.start = start
        self.fixed = not isinstance(start, (Value, Number, Items, bool, int, float))
        self.settled = self.fixed
        self.inside: Any = None
        self.element: Any = start.element if isinstance(start, Items) else None
        self.fake: Any = None
        self.type: TensorType | None = None
        if isinstance(start, Items):
            unknown_length_lists.promote(interpreter, start)
        elif not self.fixed:
            number = is_number(start)
            self.fake = None if number else unread.get(start) or interpreter.sizes.of(start)
            self.fake = interpreter.sizes.unbacked.any_number(kind_of(unwrap(start))) if number else self.fake
            self.type = start.type if isinstance(start, Value) and isinstance(start.type, TensorType) else None

    def enter(self, interpreter: Interpreter) -> Any:
        """Return the leaf's value inside the body."""
        if self.fixed:
            return self.start
        if isinstance(self.start, Items):
            self.inside = interpreter.value("prim::Loop", UNKNOWN)
            return interpreter.items((), self.inside, self.element)
        if is_number(self.start):
            self.fake = interpreter.sizes.unbacked.any_number(kind_of(unwrap(self.start)))
        self.inside = interpreter.value("prim::Loop", self.fake)
        if self.fake is UNKNOWN and self.type is not None:
            self.inside.type = self.type
        return wrap(self.inside) if isinstance(self.start, Number) else self.inside

    def leave(self, interpreter: Interpreter) -> tuple[Any, Value]:
        """Return the leaf's value after the loop, and the loop's output."""
        if isinstance(self.start, Items):
            output = interpreter.value("prim::Loop", UNKNOWN)
            return interpreter.items((), output, self.element), output
        fake = self.fake
        if isinstance(fake, AbstractTensor):
            fake = interpreter.sizes.renewed(fake)
        elif fake is not UNKNOWN:
            fake = interpreter.sizes.unbacked.any_number(kind_of(unwrap(self.start)))
        output = interpreter.value("prim::Loop", fake)
        if fake is UNKNOWN and self.type is not None:
            output.type = self.type
        return (wrap(output) if isinstance(self.start, Number) else output), output


class _Cell:
    """An outer list, list element or attribute that the loop carries."""

    def __init__(self, container: Any, key: Any) -> None:
        self.container = container
        self.key = key

    def get(self) -> Any:
        return self.container.copy() if self.key is None else self.container[self.key]

    def set(self, ivalue: Any) -> None:
        if self.key is None:
            restore(self.container, ivalue)
        else:
            self.container[self.key] = ivalue


class _Rolled:
    """A loop that stays a `prim::Loop`."""

    def __init__(self, interpreter: Interpreter, block: Any, trips: Any, condition: Any, carried: list[Any]) -> None:
        self.interpreter = interpreter
        self.block = block
        self.trips = trips
        self.condition = condition
        self.extended = extended_lists(block, carried)
        self.carried = [ivalue for index, ivalue in enumerate(carried) if index not in self.extended]
        self.cells: list[_Cell] = []
        self.slots: list[_Slot] = []
        self.structure: Any = None
        self.collected: list[Collected] = []
        self.collecting = True
        self.unread: dict[Value, Any] = {}
        self.known = set(interpreter.sizes.env.var_to_range)

    def read(self) -> list[Any]:
        """Convert the loop; return the state after it."""
        for _ in range(_READINGS):
            try:
                done = self._reading()
            except CaptureError:
                if not self.collected:
                    raise
                self.collected, self.collecting = [], False  # lists that are more than appended to are carried
                continue
            if done is not None:
                return self._finish(*done)
        raise self.interpreter.refuse(
            "the type of a loop-carried value changes from round to round", "give it one shape and dtype before the loop"
        )

    def _state(self) -> tuple[Any, ...]:
        return (tuple(self.carried), tuple(cell.get() for cell in self.cells))

    def _reading(self) -> tuple[Graph, Any, list[Any]] | None:
        """Convert the body once; return None if the state's structure must change."""
        interpreter = self.interpreter
        leaves, structure = flatten(self._state())
        if structure != self.structure:
            self.structure, self.slots = structure, [_Slot(interpreter, leaf, self.unread) for leaf in leaves]
        graph = Graph()
        with interpreter.journal.stretch() as entries, interpreter.writing_to(graph):
            for cell in self.cells:
                interpreter.journal.note(cell.container)
            for collected in self.collected:
                collected.enter(graph)
            index = interpreter.value("prim::Loop", interpreter.sizes.unbacked.any_number(int))
            carried, held = build(structure, iter([slot.enter(interpreter) for slot in self.slots]), interpreter.journal.created)
            for cell, ivalue in zip(self.cells, held, strict=True):
                cell.set(ivalue)
            failure: CaptureError | None = None
            try:
                going, *after = _round(interpreter, self.block, [index, *with_extended(carried, self.extended)])
                after = [ivalue for index, ivalue in enumerate(after) if index not in self.extended]
                narrow = tuple(fitted(start, now) for start, now in zip(self.carried, after, strict=True))
                results = (narrow, tuple(cell.get() for cell in self.cells))
                for collected in self.collected:
                    collected.leave(self.known)
            except CaptureError as error:
                failure = error
            changes = Journal.changes(entries)
            Journal.undo(entries)
        if self._new_cells(changes):  # also where one round alone cannot be read, as one that reads what others append
            return None
        if failure is not None:
            raise failure
        outcome, found = flatten(results)
        if found != structure:
            self._reshape(results[0], structure, found)
            return None
        with interpreter.writing_to(graph):
            moved = [self._settle(slot, leaf) for slot, leaf in zip(self.slots, outcome, strict=True)]
        if any(moved):
            return None
        carried_slots = [(slot, leaf) for slot, leaf in zip(self.slots, outcome, strict=True) if not slot.fixed]
        with interpreter.writing_to(graph):
            graph.outputs = [unwrap(going), *(self._result(slot, leaf) for slot, leaf in carried_slots)]
            graph.outputs += [collected.result() for collected in self.collected]
        graph.inputs = [index, *(slot.inside for slot, _ in carried_slots)]
        return graph, going, [slot for slot, _ in carried_slots]

    # What the body changes outside

    def _new_cells(self, changes: list[tuple[Any, Any, Any]]) -> bool:
        """Carry outer lists and dicts that the body changes; return whether any is new."""
        added = False
        for container, before, after in changes:
            if any(collected.container is container for collected in self.collected):
                continue
            for key in self._keys(container, before, after):
                if key is None and self.collecting and collectable(container):
                    self.collected.append(Collected(self.interpreter, container))
                    added = True
                    continue
                if not any(cell.container is container and cell.key in (key, None) for cell in self.cells):
                    if key is None:
                        unknown_length_lists.promote(self.interpreter, container)
                        self.cells = [cell for cell in self.cells if cell.container is not container]
                    self.cells.append(_Cell(container, key))
                    added = True
        return added

    def _keys(self, container: Any, before: Any, after: Any) -> list[Any]:
        if isinstance(container, Items):
            if before.sequence is not None or after.sequence is not None or len(before) != len(after):
                changed = before.sequence is not after.sequence or len(before) != len(after)
                if changed and not len(container) and container.sequence is None and container.element is None:
                    container.element = self._appended(after)
                return [None] if changed else []
            return [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
        for key in after.keys() - before.keys():
            if not isinstance(key, tuple):
                raise self.interpreter.refuse("a loop adds keys to a dict", "give the dict all its keys before the loop")
            container[key] = before[key] = self.interpreter.stored(*key)
        return [key for key in after if before[key] is not after[key]]

    def _appended(self, after: Items) -> Any:
        return unknown_length_lists.common_element(self.interpreter, after)

    # What the body carries

    def _reshape(self, after: tuple[Any, ...], old: Any, new: Any) -> None:
        """Widen the state: a list that grows, a value that may be None."""
        changed = False
        for index, (start, now) in enumerate(zip(self.carried, after, strict=True)):
            reshaped = self._reshaped(start, now)
            changed |= reshaped is not start
            self.carried[index] = reshaped
        if not changed:
            raise self.interpreter.refuse(
                "a loop changes the structure of a loop-carried value", "carry tensors, numbers or lists of them"
            )

    def _reshaped(self, start: Any, now: Any) -> Any:
        if flatten(start)[1] == flatten(now)[1]:
            return start
        if isinstance(start, Items) and isinstance(now, Items):
            made = start.copy()
            if not made and made.sequence is None:
                made.element = unknown_length_lists.common_element(self.interpreter, now)
            unknown_length_lists.promote(self.interpreter, made)
            return made
        if isinstance(now, Maybe) or start is None or now is None:
            inner = now.value if isinstance(now, Maybe) else now
            if inner is None:
                return start if isinstance(start, Maybe) else Maybe(False, start)
            if isinstance(start, Maybe):
                return Maybe(start.absent, self._reshaped(start.value, inner))
            value = UNINITIALIZED if start is None else start
            return Maybe(start is None, self._reshaped(value, inner) if value is not UNINITIALIZED else self._unknown(inner))
        if start is UNINITIALIZED:
            return self._unknown(now)
        if isinstance(start, tuple) and isinstance(now, tuple) and len(start) == len(now):
            return tuple(self._reshaped(a, b) for a, b in zip(start, now, strict=True))
        return start

    def _unknown(self, like: Any) -> Any:
        """Create the initial value of a variable that the loop assigns first."""
        leaves, structure = flatten(like)
        made = [unassigned(self.interpreter, leaf) for leaf in leaves]
        pairs = zip(made, leaves, strict=True)
        self.unread |= {new: fake_of_unread(self.interpreter, leaf) for new, leaf in pairs if isinstance(new, Value)}
        return build(structure, iter(made))

    def _settle(self, slot: _Slot, after: Any) -> bool:
        """Widen a leaf's type by its value after an iteration; return whether it changed."""
        if slot.fixed:
            if after is slot.start or (_is_constant(after) and type(after) is type(slot.start) and after == slot.start):
                return False
            if after is UNINITIALIZED:
                return False
            slot.fixed, slot.settled = False, True
            fresh = _Slot(self.interpreter, unassigned(self.interpreter, after) if slot.start is UNINITIALIZED else slot.start)
            if fresh.fixed:
                raise self.interpreter.refuse(
                    f"a loop changes a {type(slot.start).__name__}", "carry tensors, numbers or lists of them"
                )
            slot.start, slot.fake, slot.type, slot.element = fresh.start, fresh.fake, fresh.type, fresh.element
            return True
        if unwrap(after) is slot.inside or (isinstance(after, Items) and after.sequence is slot.inside):
            slot.fixed = not slot.settled and not isinstance(slot.start, Items)
            return slot.fixed
        if isinstance(slot.start, Items):
            return self._settle_list(slot, after)
        if is_number(slot.start) or (is_number(after) and isinstance(slot.start, Number)):
            return False
        return self._settle_tensor(slot, unknown_length_lists.as_tensor(self.interpreter, after))

    def _settle_list(self, slot: _Slot, after: Items) -> bool:
        element = unknown_length_lists.joined_element(
            self.interpreter, slot.element, unknown_length_lists.common_element(self.interpreter, after)
        )
        same = self.interpreter.sizes.alike(element, slot.element)
        slot.element = slot.element if same else element
        if not same and not slot.start and isinstance(slot.start, Items):
            slot.start = self.interpreter.items((), slot.start.sequence, element)
        return not same

    def _settle_tensor(self, slot: _Slot, after: Any) -> bool:
        if after is UNINITIALIZED:
            return False
        if not isinstance(after, Value):
            raise self.interpreter.refuse("a loop carries a tensor that becomes something else", "keep it a tensor")
        fake = joined(self.interpreter, slot.inside, after, "one round of a loop and the next")
        if isinstance(fake, TensorType):
            moved = slot.fake is not UNKNOWN
            slot.fake, slot.type = UNKNOWN, fake
            return moved
        moved = not self.interpreter.sizes.alike(fake, slot.fake)
        slot.fake = fake if moved else slot.fake
        return moved

    def _result(self, slot: _Slot, after: Any) -> Any:
        if isinstance(after, Items):
            return unknown_length_lists.as_sequence(self.interpreter, after, slot.element)
        if after is UNINITIALIZED:
            return slot.inside
        if is_number(slot.start):
            kind = kind_of(unwrap(slot.start))
            return unwrap(after) if isinstance(unwrap(after), Value) else kind(unwrap(after))
        return unknown_length_lists.as_tensor(self.interpreter, after)

    # The node

    def _finish(self, graph: Graph, going: Any, slots: list[_Slot]) -> list[Any]:
        interpreter = self.interpreter
        after, outputs = {}, []
        for slot in slots:
            after[id(slot)], output = slot.leave(interpreter)
            outputs.append(output)
        always = self.condition is True and graph.outputs[0] is True
        if always:
            graph.outputs[0] = None
        outputs += [collected.finish() for collected in self.collected]
        starts = [slot.start.sequence if isinstance(slot.start, Items) else unwrap(slot.start) for slot in slots]
        trips = None if type(self.trips) is int and self.trips == _FOREVER else self.trips
        interpreter.append("prim::Loop", [trips, None if always else self.condition, *starts], outputs, blocks=[graph])
        leaves = [after.get(id(slot), slot.start) for slot in self.slots]
        carried, held = build(self.structure, iter(leaves))
        for cell, ivalue in zip(self.cells, held, strict=True):
            interpreter.journal.note(cell.container)
            cell.set(ivalue)
        for collected in self.collected:
            collected.after()
        return with_extended(carried, self.extended)


def _is_constant(ivalue: Any) -> bool:
    return not isinstance(ivalue, (Value, Number, Items))
