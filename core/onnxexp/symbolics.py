"""Symbolic functions as inspectable data: which function lowers which torch operator, from which opset on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from onnxexp.errors import OpsetError, PluginConflict
from onnxexp.values import Tensor

__all__ = ["Dispatcher", "Symbolic", "SymbolicTable"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Symbolic:
    """One entry of a table.

    Attributes:
        op: ``aten::gelu`` (every overload) or ``aten::add.Tensor`` (that one).
        since: The first target opset that it serves.
        function: Called as ``function(op, *args)`` with every argument of the torch schema, in order.
        direct: The ONNX operator where this is a one-to-one entry, else "".
    """

    op: str
    since: int
    function: Callable[..., Any]
    direct: str = ""


class SymbolicTable:
    """The symbolics of one torch namespace (or several: names with ``::`` are taken as they are).

    `override=True` says that this table's entries win over another plugin's entries for the same operators.
    """

    def __init__(self, namespace: str, *, override: bool = False) -> None:
        self.namespace = namespace
        self.override = override
        self._entries: dict[str, list[Symbolic]] = {}

    def __call__(self, *names: str, since: int = 0) -> Callable[[Function], Function]:
        """Register a function for operators; ``"gelu"`` is every overload, ``"add.Tensor"`` that one.

        Raises ValueError where the table has an entry for the same operator and `since` already.
        """

        def register(function: Function) -> Function:
            for name in names:
                self._add(Symbolic(self._full(name), since, function))
            return function

        return register

    def direct(self, operators: Mapping[str, str], *, since: int = 0) -> None:
        """Operators whose tensor arguments, in order, are the inputs of one ONNX operator without attributes."""
        for name, onnx_name in operators.items():
            self._add(Symbolic(self._full(name), since, _direct(onnx_name), onnx_name))

    def find(self, op: str, opset: int) -> Symbolic | None:
        """The entry for an operator's overload at an opset: the highest `since` not above it."""
        fitting = [entry for entry in self.versions(op) if entry.since <= opset]
        return fitting[-1] if fitting else None

    def versions(self, op: str) -> list[Symbolic]:
        """Every entry for an operator's overload, by `since`; those of the overload itself hide those of the whole name."""
        return self._entries.get(op) or self._entries.get(op.partition(".")[0]) or []

    def __iter__(self) -> Iterator[Symbolic]:
        for op in sorted(self._entries):
            yield from self._entries[op]

    def __len__(self) -> int:
        return len(self._entries)

    def _full(self, name: str) -> str:
        return name if "::" in name else f"{self.namespace}::{name}"

    def _add(self, entry: Symbolic) -> None:
        versions = self._entries.setdefault(entry.op, [])
        if any(version.since == entry.since for version in versions):
            raise ValueError(f"{entry.op} has a symbolic for opset {entry.since or 'any'} in this table already")
        versions.append(entry)
        versions.sort(key=lambda version: version.since)


def _direct(onnx_name: str) -> Callable[..., Any]:
    def symbolic(op: Any, *args: Any) -> Any:
        return op.call("", onnx_name, *(arg for arg in args if isinstance(arg, Tensor)))

    return symbolic


class Dispatcher:
    """The tables of all selected plugins as one: who lowers this operator?

    The answer does not depend on the order of the plugins. Raises PluginConflict where two plugins claim one operator and
    not exactly one of them says ``override=True``.
    """

    def __init__(self, tables: Iterable[tuple[str, SymbolicTable]]) -> None:
        self._owner: dict[str, tuple[str, SymbolicTable]] = {}
        for plugin, table in sorted(tables, key=lambda pair: pair[0]):
            for op in {entry.op for entry in table}:
                self._claim(op, plugin, table)

    def _claim(self, op: str, plugin: str, table: SymbolicTable) -> None:
        other = self._owner.get(op)
        if other is None or other[0] == plugin or (table.override and not other[1].override):
            self._owner[op] = (plugin, table)
        elif table.override == other[1].override:
            raise PluginConflict(
                f"the plugins {other[0]!r} and {plugin!r} both lower {op}; switch one of them off, or let exactly one of "
                f"their tables say override=True"
            )

    def find(self, op: str, opset: int) -> Symbolic | None:
        """The symbolic for an operator at an opset, None where no plugin claims it.

        Raises OpsetError where a plugin claims it only for later opsets.
        """
        owner, whole = self._owner.get(op), self._owner.get(op.partition(".")[0])
        if owner is None or (whole is not None and whole[1].override and not owner[1].override):
            owner = whole
        if owner is None:
            return None
        found = owner[1].find(op, opset)
        if found is None:
            first = owner[1].versions(op)[0].since
            raise OpsetError(f"the plugin {owner[0]!r} lowers {op} from opset {first} on; the target is opset {opset}", first)
        return found

    def __len__(self) -> int:
        return len(self._owner)
