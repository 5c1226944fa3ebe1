"""One call of a torch.autograd.Function as a torch operator: what torch.export keeps whole, and what it was a call of."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["Arguments", "Form", "Function", "Hole", "Kept", "kept", "kept_op", "known_as"]

Function = type[torch.autograd.Function]
_NAMESPACE = "autograd"
_TYPES: dict[type, str] = {
    torch.Tensor: "Tensor",
    torch.SymInt: "SymInt",
    torch.SymFloat: "Scalar",
    torch.SymBool: "Scalar",
}
"""What varies from run to run, and how a schema says it (a `float` would take a symbol's value in the example for good); every
other argument is a constant of the call."""

_RECORDS: dict[str, Kept] = {}
_OPERATORS: dict[str, str] = {}
"""What the graph calls each operator: as an overload of the class's name, so that a table's entry for the class serves it."""
_LOCK = threading.Lock()
_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Hole:
    """Stands for the argument of this number that varies."""

    number: int


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of a call, taken apart.

    Attributes:
        spec: How they are nested.
        leaves: Constants, and a `Hole` for each that varies.
        types: The schema types of those that vary.
    """

    spec: pytree.TreeSpec
    leaves: tuple[Any, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, args: Sequence[Any]) -> tuple[Arguments, list[Any]]:
        """The form of a call, and what varies in it."""
        flat, spec = pytree.tree_flatten(tuple(args))
        leaves: list[Any] = []
        varying: list[Any] = []
        for leaf in flat:
            if _type(leaf):
                leaves.append(Hole(len(varying)))
                varying.append(leaf)
            else:
                leaves.append(leaf)
        return cls(spec, tuple(leaves), tuple(map(_type, varying))), varying

    def fill(self, varying: Sequence[Any]) -> list[Any]:
        """The arguments with these in the holes."""
        leaves = [varying[leaf.number] if isinstance(leaf, Hole) else leaf for leaf in self.leaves]
        return list(pytree.tree_unflatten(leaves, self.spec))

    def equals(self, other: Arguments) -> bool:
        if self.types != other.types or self.spec != other.spec or len(self.leaves) != len(other.leaves):
            return False
        return all(_same(one, two) for one, two in zip(self.leaves, other.leaves, strict=True))


def _type(leaf: Any) -> str:
    return next((text for kind, text in _TYPES.items() if isinstance(leaf, kind)), "")


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    return (
        type(one) is type(two) and isinstance(one, (Hole, bool, int, float, str, bytes, torch.dtype)) and repr(one) == repr(two)
    )


@dataclasses.dataclass(frozen=True)
class Form:
    """What one operator serves: calls of this form.

    Attributes:
        arguments: How the arguments are nested, and the constants among them.
        returned: How the results are nested; constants among them as they are, a `Hole` for each tensor.
        written: Of each tensor that comes back as an argument that was written into: (number of the result, of the argument).
        shared: Of each tensor that may share memory with an argument without being written: the same.
        decision: What the plugin decided to do with it.
        learned: What was learned of its results' sizes where fake tensors cannot tell.
    """

    arguments: Arguments = dataclasses.field(compare=False)
    returned: Any
    written: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...]
    decision: Any
    learned: Any = None


@dataclasses.dataclass(frozen=True)
class Kept:
    """An operator, the form that it serves, and the class that it is a call of (weakly: this goes when the class goes)."""

    function: Callable[[], Function | None]
    form: Form
    op: Any = dataclasses.field(repr=False)

    def fill(self, args: Sequence[Any]) -> list[Any]:
        """The Function's arguments, from the operator's."""
        return self.form.arguments.fill(args)


def known_as(operator: str) -> str:
    """What the neutral graph calls an operator of this module (``autograd::MyRelu.v0``); others as they are."""
    return _OPERATORS.get(operator, operator)


def kept(name: str) -> Kept | None:
    """What the operator of a full name (``autograd::MyRelu.v0``) is a call of."""
    return _RECORDS.get(name)


def kept_op(function: Function, form: Form, run: Callable[..., Any]) -> Kept:
    """The operator for such a call: the one that there is, or a new one that computes by `run`."""
    with _LOCK:
        for record in _records(function):
            if record.form == form and record.form.arguments.equals(form.arguments):
                return record
        return _define(function, form, run)


def _records(function: Function) -> Iterator[Kept]:
    return (record for record in _RECORDS.values() if record.function() is function)


@functools.cache
def _library() -> Any:
    """Operators stay as long as the process: torch crashes where one is taken away while a packet of its name is known."""
    return torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch does not annotate it


def _schema(form: Form) -> str:
    """``(Tensor a0, Tensor(s1) a1) -> (Tensor, Tensor(s1))``: what may share memory says so, for whoever rewrites writes."""
    sharing = dict(form.shared)
    count = sum(isinstance(leaf, Hole) for leaf in pytree.tree_leaves(form.returned))
    formals = ", ".join(
        f"{type_}(s{number}) a{number}" if number in sharing.values() else f"{type_} a{number}"
        for number, type_ in enumerate(form.arguments.types)
    )
    results = [f"Tensor(s{sharing[number]})" if number in sharing else "Tensor" for number in range(count)]
    return f"({formals}) -> {results[0] if count == 1 else '(' + ', '.join(results) + ')'}"


def _define(function: Function, form: Form, run: Callable[..., Any]) -> Kept:
    number = next(_NUMBERS)
    name = re.sub(r"\W", "_", function.__name__)
    own = f"{name}_v{number}"  # no overloads of one name: torch cannot take those away again when the process ends
    library = _library()
    library.define(f"{own}{_schema(form)}")
    library.impl(own, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{own}", run, lib=library)
    op = getattr(getattr(torch.ops, _NAMESPACE), own).default
    full = f"{_NAMESPACE}::{name}.v{number}"
    _OPERATORS[f"{_NAMESPACE}::{own}"] = full
    record = Kept(weakref.ref(function), form, op)
    _RECORDS[full] = record
    weakref.finalize(function, _RECORDS.pop, full, None)
    return record
