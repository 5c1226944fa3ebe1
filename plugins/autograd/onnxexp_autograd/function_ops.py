"""Define a torch operator for each form of call of a torch.autograd.Function."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

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

_LOCK = threading.Lock()


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
    """A torch operator in the place of a Function's calls, in one export.

    Attributes:
        function: The Function's class.
        form: The form of the calls.
        compute: Return the operator's results for its arguments.
        op: The torch operator.
        graph_name: The operator's name in the graph, ``autograd::MyRelu.v0``: an overload of the class's name, so that a table's
            entry for the class matches it.
    """

    function: Function
    form: CallForm
    compute: Callable[..., Any]
    op: Any
    graph_name: str

    def fill(self, args: Sequence[Any]) -> list[Any]:
        """Return the Function's arguments for the operator's arguments."""
        return self.form.arguments.fill(args)


class FunctionOps:
    """The operators of one export."""

    def __init__(self) -> None:
        self._by_name: dict[str, FunctionOp] = {}
        self._by_graph_name: dict[str, FunctionOp] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make torch's operators compute by these, in this thread."""
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def captured(self, name: str) -> FunctionOp | None:
        """Return the operator with this name in torch, ``autograd::MyRelu_0_1a2b3c4d``."""
        return self._by_name.get(name)

    def in_graph(self, name: str) -> FunctionOp | None:
        """Return the operator with this name in the graph, ``autograd::MyRelu.v0``."""
        return self._by_graph_name.get(name)

    def operator_for(self, function: Function, form: CallForm, compute: Callable[..., Any]) -> FunctionOp:
        """Return the operator for this form of call, or add one with this `compute`."""
        for known in self._by_name.values():
            if known.function is function and known.form == form and known.form.arguments.equals(form.arguments):
                return known
        name, schema = re.sub(r"\W", "_", function.__name__), _schema(form)
        with _LOCK:  # functools.cache may call a function twice for one key
            op = _torch_operator(name, schema, self._counts[name, schema])
        self._counts[name, schema] += 1
        made = FunctionOp(function, form, compute, op, f"{_NAMESPACE}::{name}.v{len(self._by_name)}")
        self._by_name[op.name()] = self._by_graph_name[made.graph_name] = made
        return made


_ACTIVE: contextvars.ContextVar[FunctionOps | None] = contextvars.ContextVar("onnxexp_autograd operators", default=None)


@functools.cache
def _library() -> Any:
    """Return the library of the operators.

    The library is never destroyed, since torch crashes if a used operator is removed.
    """
    return torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch does not annotate it


@functools.cache
def _torch_operator(name: str, schema: str, index: int) -> Any:
    """Define the torch operator of an index, class name and schema.

    All exports share the operator, since torch cannot remove it. The active export computes its results.
    """
    digest = hashlib.sha256(schema.encode()).hexdigest()[:8]
    own = f"{name}_{index}_{digest}"  # no overloads of one name: torch cannot remove those at exit

    def run(*inputs: Any) -> Any:
        operators = _ACTIVE.get()
        operator = operators.captured(f"{_NAMESPACE}::{own}") if operators is not None else None
        if operator is None:
            raise RuntimeError(f"{_NAMESPACE}::{own} runs only while the model is captured that calls the Function {name}")
        return operator.compute(*inputs)

    library = _library()
    library.define(f"{own}{schema}")
    library.impl(own, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{own}", run, lib=library)
    return getattr(getattr(torch.ops, _NAMESPACE), own).default


def _schema(form: CallForm) -> str:
    """Return the schema, such as ``(Tensor(s1) a0) -> Tensor(s1)``.

    Functionalization reads the aliases in it.
    """
    sharing = dict(form.shared)
    count = sum(isinstance(leaf, Placeholder) for leaf in pytree.tree_leaves(form.returned))
    formals = ", ".join(
        f"{type_}(s{number}) a{number}" if number in sharing.values() else f"{type_} a{number}"
        for number, type_ in enumerate(form.arguments.types)
    )
    results = [f"Tensor(s{sharing[number]})" if number in sharing else "Tensor" for number in range(count)]
    return f"({formals}) -> {results[0] if count == 1 else '(' + ', '.join(results) + ')'}"
