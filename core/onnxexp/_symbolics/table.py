"""Tables of symbolic functions, with the opsets and limits of each."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from onnxexp._builder.tensor import Tensor
from onnxexp._errors import PluginError
from onnxexp._symbolic_size import SymbolicSize

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Symbolic:
    """One entry of a table.

    Where a declared limit does not hold, the next entry, the next plugin or torch's decomposition takes over.

    Attributes:
        op: ``aten::gelu`` (every overload) or ``aten::add.Tensor`` (that one).
        since: The first target opset that it serves.
        function: Called as ``function(op, *args)`` with every argument of the torch schema, in order.
        direct: The ONNX operator where this is a one-to-one entry, else "".
        until: The last target opset that it serves, or None.
        dtypes: The dtypes that it takes in tensor arguments; None: any.
        static_shapes: Whether every size of every tensor argument must be known at export.
    """

    op: str
    since: int
    function: Callable[..., Any]
    direct: str = ""
    until: int | None = None
    dtypes: frozenset[torch.dtype] | None = None
    static_shapes: bool = False

    def serves(self, opset: int) -> bool:
        return self.since <= opset and (self.until is None or opset <= self.until)

    def refusal(self, args: Sequence[Any]) -> str:
        """Describe the declared limit that these arguments exceed, or return ""."""
        if self.dtypes is None and not self.static_shapes:
            return ""
        for tensor in _tensors(args):
            if self.dtypes is not None and tensor.dtype not in self.dtypes:
                return f"it does not take {tensor.dtype} ({', '.join(sorted(map(str, self.dtypes)))})"
            if self.static_shapes and (tensor.shape is None or any(isinstance(size, SymbolicSize) for size in tensor.shape)):
                return f"it takes static shapes only, and there is {tensor!r}"
        return ""

    @property
    def name(self) -> str:
        """The function's full name (``onnxexp_aten.math.gelu``).

        A one-to-one entry has the name ``onnx.Relu``.
        """
        return f"onnx.{self.direct}" if self.direct else name_of(self.function)

    @property
    def location(self) -> str:
        """The ``file:line`` of the function, or "" for a one-to-one entry."""
        return "" if self.direct else location_of(self.function)


def name_of(function: Callable[..., Any]) -> str:
    """Return the full name of a function, a method, or a callable object's class."""
    plain = inspect.unwrap(function)
    named = plain if inspect.isroutine(plain) else type(plain)
    return f"{named.__module__}.{named.__qualname__}"


def location_of(function: Callable[..., Any]) -> str:
    """Return the ``file:line`` of a function, a method, or an object's `__call__`.

    Returns "" for functions in C.
    """
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)  # a method's function
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)  # an object has none of its own
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _tensors(args: Sequence[Any]) -> Iterator[Tensor]:
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)


class SymbolicTable:
    """The symbolics of a torch namespace, and of others by names with ``::``.

    With `override=True` this table's entries win over another plugin's entries for the same operators.
    """

    def __init__(self, namespace: str, *, override: bool = False) -> None:
        self.namespace = namespace
        self.override = override
        self._entries: dict[str, list[Symbolic]] = {}
        self._packets: set[str] = set()

    def __call__(
        self,
        *names: str,
        since: int = 0,
        until: int | None = None,
        dtypes: Collection[torch.dtype] | None = None,
        static_shapes: bool = False,
    ) -> Callable[[Function], Function]:
        """Register a function for operators by name.

        ``"gelu"`` is every overload, ``"add.Tensor"`` only one. `until`, `dtypes` and `static_shapes` declare the function's
        limits, see `Symbolic`. Raises ValueError where the table has an entry for the same operator and `since` already, and
        PluginError for an object that is no function and for opsets that are no numbers.
        """
        limits = None if dtypes is None else frozenset(dtypes)

        def register(function: Function) -> Function:
            for name in names:
                self._add(Symbolic(self._full(name), since, function, "", until, limits, static_shapes))
            return function

        return register

    def direct(self, operators: Mapping[str, str], *, since: int = 0) -> None:
        """Lower each operator to one ONNX operator whose inputs are its tensors in order.

        The ONNX operator gets no attributes.
        """
        for name, onnx_name in operators.items():
            if not isinstance(onnx_name, str):
                raise PluginError(f"direct: {name} is to become {onnx_name!r}; to fix this, give the name of an ONNX operator")
            self._add(Symbolic(self._full(name), since, _direct(onnx_name), onnx_name))

    def include(self, *tables: SymbolicTable) -> None:
        """Add the entries of other tables, such as those of a plugin's modules.

        Raises ValueError where an operator then has two entries with the same `since`.
        """
        for table in tables:
            for entry in table:
                self._add(entry)

    def find(self, op: str, opset: int) -> Symbolic | None:
        """Return the entry for an overload at an opset, the one with the highest `since`."""
        fitting = [entry for entry in self.versions(op) if entry.serves(opset)]
        return fitting[-1] if fitting else None

    def versions(self, op: str) -> list[Symbolic]:
        """List the entries for an overload by `since`, else those for the operator's name."""
        return self._entries.get(op) or self._entries.get(op.partition(".")[0]) or []

    def operators(self) -> frozenset[str]:
        """Return the operators with entries, as they were registered."""
        return frozenset(self._entries)

    def packets(self) -> frozenset[str]:
        """Return the names of the operators with entries, without overloads."""
        return frozenset(self._packets)

    def __iter__(self) -> Iterator[Symbolic]:
        for op in sorted(self._entries):
            yield from self._entries[op]

    def __len__(self) -> int:
        return len(self._entries)

    def _full(self, name: str) -> str:
        return name if "::" in name else f"{self.namespace}::{name}"

    def _add(self, entry: Symbolic) -> None:
        limits: list[Any] = [entry.since, *([] if entry.until is None else [entry.until])]  # plugins need no type checker
        function: Any = entry.function
        if not callable(function) or not all(isinstance(limit, int) for limit in limits):
            raise PluginError(
                f"the symbolic of {entry.op} is {entry!r}; to fix this, give a function, and whole numbers as opsets"
            )
        versions = self._entries.setdefault(entry.op, [])
        if any(version.since == entry.since for version in versions):
            raise ValueError(f"{entry.op} has a symbolic for opset {entry.since or 'any'} in this table already")
        versions.append(entry)
        self._packets.add(entry.op.partition(".")[0])
        versions.sort(key=lambda version: version.since)


def _direct(onnx_name: str) -> Callable[..., Any]:
    def symbolic(op: Any, *args: Any) -> Any:
        return op.call("", onnx_name, *(arg for arg in args if isinstance(arg, Tensor)))

    return symbolic
