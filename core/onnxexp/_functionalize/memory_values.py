"""The value that each tensor's memory has at a node: a write makes a new value.

A `Ref` is a place in memory: a whole tensor (a root) or a view of another place. The root always has a current value. A view's
value is computed again from its parent's, if the view is read after the memory changed. A write to a view is pending at first.
It is written back to the root when another place of the same memory is read.
"""

from __future__ import annotations

import dataclasses

from onnxexp._errors import CaptureError
from onnxexp._functionalize.node_emitter import Emitter
from onnxexp._functionalize.places import Ref, View, refuse
from onnxexp._functionalize.write_back import can_write, is_part, make_view, write_back
from onnxexp._neutral_graph import Value
from onnxexp._source_location import SourceLocation


@dataclasses.dataclass(slots=True)
class MemoryState:
    """The contents of memory at one point of the program.

    Attributes:
        values: The value of each place that has been read or written, with the version of the root that it belongs to.
        versions: How often each root has been written.
        pending: For a root, a view whose last write is not in the root yet, its value, and the source line of the write.
        spoiled: Roots whose contents are uncertain, with the reason.
    """

    values: dict[Ref, tuple[Value, int]] = dataclasses.field(default_factory=dict)
    versions: dict[Ref, int] = dataclasses.field(default_factory=dict)
    pending: dict[Ref, tuple[Ref, Value, SourceLocation]] = dataclasses.field(default_factory=dict)
    spoiled: dict[Ref, str] = dataclasses.field(default_factory=dict)

    def copy(self) -> MemoryState:
        return MemoryState(dict(self.values), dict(self.versions), dict(self.pending), dict(self.spoiled))


class Memory:
    """All places, and their contents at the current node.

    Attributes:
        state: Saved, replaced and restored around nested graphs.
        used: Every root that was read or written, in the order in which that happened.
        changed: Every root that was written.
        overlapping: Roots whose elements may share memory, with the operators that made them.
    """

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit
        self.state = MemoryState()
        self.used: dict[Ref, None] = {}
        self.changed: dict[Ref, None] = {}
        self.overlapping: dict[Ref, str] = {}
        self._children: dict[tuple[Ref, View], Ref] = {}
        self._links: dict[Ref, dict[Ref, None]] = {}
        self._viewed: dict[Ref, dict[Ref, None]] = {}

    def start(self, value: Value) -> Ref:
        """Make the root for a new tensor `value`."""
        root = Ref(value)
        self.state.values[root] = value, 0
        self.state.versions[root] = 0
        return root

    def child(self, parent: Ref, view: View, value: Value, where: SourceLocation) -> Ref:
        """Return the place of a view; equal views are one place, with the first `value`."""
        return self._children.setdefault((parent, view), Ref(value, parent, view, where))

    def link(self, one: Ref, other: Ref, *, views: bool = False) -> None:
        """Note that two places may share memory in an unknown way.

        With `views`, the first is one of torch's views of the other, if they share any.
        """
        if one.root is not other.root:
            if views:
                self._viewed.setdefault(one.root, {})[other.root] = None
            self._links.setdefault(one.root, {})[other.root] = None
            self._links.setdefault(other.root, {})[one.root] = None

    def changed_roots(self) -> dict[Ref, None]:
        """Find the roots that are written, and those that a written one views."""
        found = dict(self.changed)
        todo = list(found)
        while todo:
            new = [root for root in self._viewed.get(todo.pop(), ()) if root not in found]
            found.update(dict.fromkeys(new))
            todo += new
        return found

    def reach(self, root: Ref) -> dict[Ref, None]:
        """Find all roots that may share memory with a root, directly or not."""
        reached: dict[Ref, None] = {root: None}
        todo = [root]
        while todo:
            for other in self._links.get(todo.pop(), ()):
                if other not in reached:
                    reached[other] = None
                    todo.append(other)
        return reached

    def peek(self, ref: Ref) -> Value:
        """Return any value with the sizes and dtype of a place, current or not."""
        if ref in self.state.values:
            return self.state.values[ref][0]
        return self.read(ref)

    def set_value(self, ref: Ref, value: Value) -> None:
        """Set the value of a place that was just computed from its parent's value."""
        self._write_back_pending(ref.root)
        ref.first = None if ref.first is value else ref.first
        self.state.values[ref] = value, self.state.versions[ref.root]

    def is_current(self, ref: Ref, value: Value) -> bool:
        """Return whether `value` is the current value of a place."""
        if (pending := self.state.pending.get(ref.root)) is not None:
            return pending[0] is ref and pending[1] is value
        return self.state.values.get(ref) == (value, self.state.versions[ref.root])

    def read(self, ref: Ref) -> Value:
        """Return the current value of a place.

        Raises CaptureError where it is not certain.
        """
        state, root = self.state, ref.root
        if root in state.spoiled:
            raise CaptureError(state.spoiled[root])
        self.used[root] = None
        if (pending := state.pending.get(root)) is not None and pending[0] is ref:
            return pending[1]
        self._write_back_pending(root)
        version = state.versions[root]
        value, value_version = state.values.get(ref, (None, None))
        if value is not None and value_version == version:
            return value
        assert ref.parent is not None and ref.view is not None  # a root's value is always current
        value = make_view(self.emit, self.read(ref.parent), ref)
        state.values[ref] = value, version
        return value

    def write(self, ref: Ref, value: Value, op: str, where: SourceLocation, *, uniform: bool = False) -> None:
        """Write `value` to a place; a `uniform` value is one number everywhere.

        Raises CaptureError for a view that cannot be written through.
        """
        state, root = self.state, ref.root
        self.used[root] = self.changed[root] = None
        if root in self.overlapping and not (uniform and ref is root):
            refuse(_NOT_UNDONE.format(op=op, view=self.overlapping[root]), where, "write to the tensor itself")
        writer = f"{op} at {where}" if str(where) else op
        for other in self.reach(root):  # it may share the written memory
            if other is not root:
                state.spoiled[other] = _UNCERTAIN.format(other=other.name, root=root.name, writer=writer)
        if ref is root:
            state.pending.pop(root, None)  # a pending value was read into `value`, or is lost
            self.replace(root, value)
            return
        for step in ref.chain():
            if step.view is not None and not can_write(step, uniform):
                refuse(_NOT_UNDONE.format(op=op, view=step.view.op), where, "write to the tensor itself")
            uniform = uniform and not is_part(step)
        if root in state.pending and state.pending[root][0] is not ref:
            self._write_back_pending(root)
        state.pending[root] = ref, value, where

    def replace(self, root: Ref, value: Value) -> None:
        """Set the value of a root; all its views are stale then."""
        self.state.versions[root] += 1
        self.state.values[root] = value, self.state.versions[root]

    def write_back_all(self) -> None:
        """Write all pending values back to their roots."""
        for root in list(self.state.pending):
            self._write_back_pending(root)

    def _write_back_pending(self, root: Ref) -> None:
        """Write the pending value of a view back to its root, if there is one."""
        if root not in self.state.pending:
            return
        ref, value, where = self.state.pending.pop(root)
        written = {}
        for step in ref.chain():
            written[step] = value, self.state.versions[root] + 1
            if step.parent is not None:
                value = write_back(self.emit, self.read, self.peek, step, value, where)
        self.state.versions[root] += 1
        self.state.values.update(written)


_UNCERTAIN = (
    "%{other} is read after {writer} wrote to %{root}, and whether the two share memory is not certain; "
    "to fix this, clone() one of them before the write, or compute a new tensor instead of writing"
)
_NOT_UNDONE = "{op} writes through {view}, which cannot be undone"
