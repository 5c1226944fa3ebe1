"""Lists that a loop only appends to: scan outputs, at every opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp.graph import Graph, ScalarType, Value
from onnxexp.rewriting import dtype_of_number
from onnxexp_torchscript.conversion.export_time_values import Items
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number, as_tensor, unwrap
from onnxexp_torchscript.lists.unknown_length_lists import fake_of
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor, expr_of, kind_of


def collectable(items: Any) -> bool:
    """Return whether a loop can collect into a list, by its contents before the loop."""
    return isinstance(items, Items) and items.collecting is None and (items.sequence is None or items.axis == 0)


def extended_lists(block: Any, carried: Sequence[Any]) -> dict[int, Items]:
    """Return the carried lists that each round extends (``outs += [x]``), by index.

    Such lists are handled as lists outside the loop that ``append`` changes.
    """
    found = {}
    _, *given = block.inputs()
    _, *after = block.outputs()
    for index, (value, result, ivalue) in enumerate(zip(given, after, carried, strict=True)):
        while result.node().kind() == "aten::add_":
            result = result.node().inputsAt(0)
        if isinstance(ivalue, Items) and result.unique() == value.unique():
            found[index] = ivalue
    return found


def with_extended(carried: Sequence[Any], extended: Mapping[int, Items]) -> list[Any]:
    """Put extended lists between the other carried variables, at their indices."""
    others = iter(carried)
    return [extended[index] if index in extended else next(others) for index in range(len(carried) + len(extended))]


class Collected:
    """A list that a loop only appends to.

    Attributes:
        container: The list.
        start: Its elements before the loop.
        output: The elements that the rounds have appended, stacked, once the loop is read.
    """

    def __init__(self, interpreter: Interpreter, container: Items) -> None:
        self.container = container
        self.start = container.copy()
        self.output: Value | None = None
        self._interpreter = interpreter
        self._appended: list[Any] = []
        self._element: Any = None

    def enter(self, graph: Graph) -> None:
        """Empty the list for one iteration."""
        self._interpreter.journal.note(self.container)
        held = self._interpreter.value("prim::Loop", UNKNOWN)  # nobody reads it
        self.container.become(Items((), held, None, None, graph))

    def leave(self, known: set[Any]) -> None:
        """Take the element that an iteration has appended.

        `known` are the symbols outside the loop. Raises CaptureError if the element's type may differ between iterations, or from
        the start.
        """
        if self.container.collecting is None or not self.container:
            raise self._refuse("uses it in other ways as well")
        self._appended = [self._tensor(ivalue) for ivalue in self.container]
        start = [self.start.element] if self.start.sequence is not None else [fake_of(self._interpreter, it) for it in self.start]
        fakes = [fake_of(self._interpreter, ivalue) for ivalue in self.container]
        self._element = fakes[0]
        if not all(_same(self._element, other) for other in (*fakes, *start)):
            raise self._refuse("its elements have several types")
        if not _is_fixed(self._element, known):
            raise self._refuse("the sizes of its elements depend on the round")

    def result(self) -> Any:
        """Return the body's output for the list."""
        if len(self._appended) == 1:
            return self._appended[0]
        return self._interpreter.emit("aten::stack", [self._appended, 0])

    def finish(self) -> Value:
        """Create the loop's output for the list."""
        sizes = self._sizes()
        inner = [len(self._appended)] if len(self._appended) > 1 else []
        fake = self._interpreter.sizes.unbacked.tensor(self._dtype(), [None, *inner, *sizes])
        self.output = self._interpreter.value("prim::Loop", fake)
        return self.output

    def after(self) -> None:
        """Replace the list by the slices of the loop's output."""
        emit, whole = self._interpreter.emit, self.output
        assert whole is not None
        if len(self._appended) > 1:
            whole = emit("aten::flatten.using_ints", [whole, 0, 1])
        before = self._before()
        if before is not None:
            sizes = [self._interpreter.size(whole, 0)]
            sizes += [self._interpreter.size(before, axis) for axis in range(1, 1 + len(self._sizes()))]
            whole = emit("aten::reshape", [whole, sizes])  # after a loop of no rounds the sizes are unknown
            whole = emit("aten::cat", [[before, whole], 0])
        self._interpreter.journal.note(self.container)
        self.container.become(Items((), whole, self._element, 0))

    def _before(self) -> Any:
        """Stack the elements from before the loop."""
        if self.start.sequence is not None:
            return self.start.sequence
        return self._interpreter.emit("aten::stack", [[self._tensor(it) for it in self.start], 0]) if self.start else None

    def _tensor(self, ivalue: Any) -> Any:
        if isinstance(ivalue, Number):
            return as_tensor(self._interpreter, ivalue)
        if isinstance(ivalue, Value) and not isinstance(ivalue.type, ScalarType):
            return ivalue
        kind = ivalue.type.kind if isinstance(ivalue, Value) and isinstance(ivalue.type, ScalarType) else type(unwrap(ivalue))
        return self._interpreter.emit("aten::scalar_tensor", [ivalue, dtype_of_number(kind()), None, None, None])

    def _dtype(self) -> torch.dtype:
        if isinstance(self._element, AbstractTensor):
            return self._element.dtype
        return dtype_of_number(self._interpreter.sizes.type_of(self._element).kind())  # type: ignore[union-attr] # a number

    def _sizes(self) -> list[Any]:
        return list(self._element.shape) if isinstance(self._element, AbstractTensor) else []

    def _refuse(self, why: str) -> CaptureError:
        return self._interpreter.refuse(f"a loop appends to a list, and {why}", "append tensors of one type")


def _same(one: Any, other: Any) -> bool:
    """Return whether two fakes certainly have one type."""
    if one is UNKNOWN or other is UNKNOWN:
        return False
    if not isinstance(one, AbstractTensor) or not isinstance(other, AbstractTensor):
        return not isinstance(one, AbstractTensor) and not isinstance(other, AbstractTensor) and kind_of(one) == kind_of(other)
    return one.dtype == other.dtype and list(map(expr_of, one.shape)) == list(map(expr_of, other.shape))


def _is_fixed(fake: Any, known: set[Any]) -> bool:
    if not isinstance(fake, AbstractTensor):
        return fake is not UNKNOWN
    sizes: list[Any] = list(fake.shape)
    return all(size.node.expr.free_symbols <= known for size in sizes if isinstance(size, torch.SymInt))
