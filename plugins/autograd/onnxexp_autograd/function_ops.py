"""Define a torch operator for each form of call of a torch.autograd.Function."""

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

__all__ = ["Arguments", "CallForm", "Function", "Placeholder", "FunctionOp", "find_operator", "operator_for", "graph_name"]

Function = type[torch.autograd.Function]
_NAMESPACE = "autograd"
_TYPES: dict[type, str] = {
    torch.Tensor: "Tensor",
    torch.SymInt: "SymInt",
    torch.SymFloat: "Scalar",
    torch.SymBool: "Scalar",
}
"""The schema type of each kind of varying argument; any other argument is a constant of the call.

A SymFloat is a Scalar: the schema type `float` would specialise it to the example's value.
"""

_RECORDS: dict[str, FunctionOp] = {}
_OPERATORS: dict[str, str] = {}
"""The graph's name of each operator: an overload of the class's name, so that a table's entry for the class matches it."""
_LOCK = threading.Lock()
_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Placeholder:
    """Placeholder for the varying argument or result tensor with this index."""

    number: int


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The flattened arguments of a call.

    Attributes:
        spec: The pytree spec of the arguments.
        leaves: Constants, and a `Placeholder` for each varying argument.
        types: The schema types of the varying arguments.
    """

    spec: pytree.TreeSpec
    leaves: tuple[Any, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, args: Sequence[Any]) -> tuple[Arguments, list[Any]]:
        """Split a call's arguments into their form and the varying arguments."""
        flat, spec = pytree.tree_flatten(tuple(args))
        leaves: list[Any] = []
        varying: list[Any] = []
        for leaf in flat:
            if _type(leaf):
                leaves.append(Placeholder(len(varying)))
                varying.append(leaf)
            else:
                leaves.append(leaf)
        return cls(spec, tuple(leaves), tuple(map(_type, varying))), varying

    def fill(self, varying: Sequence[Any]) -> list[Any]:
        """Return the nested arguments with the placeholders filled."""
        leaves = [varying[leaf.number] if isinstance(leaf, Placeholder) else leaf for leaf in self.leaves]
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
        type(one) is type(two)
        and isinstance(one, (Placeholder, bool, int, float, str, bytes, torch.dtype))
        and repr(one) == repr(two)
    )


@dataclasses.dataclass(frozen=True)
class CallForm:
    """The form of the calls that one operator represents.

    Attributes:
        arguments: The nested arguments, with their constants.
        returned: The nested results, with a `Placeholder` for each tensor.
        written: (result, argument) index pairs of returned arguments that the forward wrote into.
        shared: (result, argument) index pairs of results that may share memory with an unwritten argument.
        decision: The plugin's decision about the Function.
        shapes: The shapes of the results if the forward cannot run on fake tensors, else None.
    """

    arguments: Arguments = dataclasses.field(compare=False)
    returned: Any
    written: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...]
    decision: Any
    shapes: Any = None


@dataclasses.dataclass(frozen=True)
class FunctionOp:
    """An operator with its form and a weak reference to its Function, whose deletion removes the record."""

    function: Callable[[], Function | None]
    form: CallForm
    op: Any = dataclasses.field(repr=False)

    def fill(self, args: Sequence[Any]) -> list[Any]:
        """Return the Function's arguments for the operator's arguments."""
        return self.form.arguments.fill(args)


def graph_name(operator: str) -> str:
    """Return the graph's name of an operator (``autograd::MyRelu.v0``); other names are returned unchanged."""
    return _OPERATORS.get(operator, operator)


def find_operator(name: str) -> FunctionOp | None:
    """Return the record of an operator by its full name (``autograd::MyRelu.v0``)."""
    return _RECORDS.get(name)


def operator_for(function: Function, form: CallForm, run: Callable[..., Any]) -> FunctionOp:
    """Return the operator for this form of call, or define one that computes by `run`."""
    with _LOCK:
        for record in _records(function):
            if record.form == form and record.form.arguments.equals(form.arguments):
                return record
        return _define(function, form, run)


def _records(function: Function) -> Iterator[FunctionOp]:
    return (record for record in _RECORDS.values() if record.function() is function)


@functools.cache
def _library() -> Any:
    """Return the library of the operators; it is never destroyed, since torch crashes if a used operator is removed."""
    return torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch does not annotate it


def _schema(form: CallForm) -> str:
    """Return the schema, ``(Tensor a0, Tensor(s1) a1) -> (Tensor, Tensor(s1))``, with aliases for functionalization."""
    sharing = dict(form.shared)
    count = sum(isinstance(leaf, Placeholder) for leaf in pytree.tree_leaves(form.returned))
    formals = ", ".join(
        f"{type_}(s{number}) a{number}" if number in sharing.values() else f"{type_} a{number}"
        for number, type_ in enumerate(form.arguments.types)
    )
    results = [f"Tensor(s{sharing[number]})" if number in sharing else "Tensor" for number in range(count)]
    return f"({formals}) -> {results[0] if count == 1 else '(' + ', '.join(results) + ')'}"


def _define(function: Function, form: CallForm, run: Callable[..., Any]) -> FunctionOp:
    number = next(_NUMBERS)
    name = re.sub(r"\W", "_", function.__name__)
    own = f"{name}_v{number}"  # no overloads of one name: torch cannot remove those at exit
    library = _library()
    library.define(f"{own}{_schema(form)}")
    library.impl(own, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{own}", run, lib=library)
    op = getattr(getattr(torch.ops, _NAMESPACE), own).default
    full = f"{_NAMESPACE}::{name}.v{number}"
    _OPERATORS[f"{_NAMESPACE}::{own}"] = full
    record = FunctionOp(weakref.ref(function), form, op)
    _RECORDS[full] = record
    weakref.finalize(function, _RECORDS.pop, full, None)
    return record
