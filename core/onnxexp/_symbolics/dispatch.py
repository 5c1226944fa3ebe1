"""Select the symbolics of an operator from the tables of all plugins."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping

from onnxexp._errors import OptionError, PluginConflict
from onnxexp._suggest import nearest
from onnxexp._symbolics.table import Symbolic, SymbolicTable


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """A table with its plugin, distribution, version, and whether the user passed it."""

    plugin: str
    table: SymbolicTable
    origin: str = ""
    user: bool = False

    def __str__(self) -> str:
        return f"the plugin {self.plugin!r}" + (f" ({self.origin})" if self.origin else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A symbolic that may lower a node, and its table."""

    source: Source
    symbolic: Symbolic

    def __str__(self) -> str:
        name = self.symbolic.name.rpartition(".")[2]
        place = f" at {self.symbolic.location}" if self.symbolic.location else ""
        return f"the symbolic {name} of {self.source}{place}"


class Dispatcher:
    """The tables of all selected plugins as one.

    Where several plugins claim an operator, one that the user passed to the call wins, then the one that `prefer` names, then one
    whose table has ``override=True``. The others follow where it declines. The order of the plugins never matters.

    Attributes:
        conflicts: One message for each pair of plugins that claim the same operators, with those operators.

    Raises:
        OptionError: `prefer` names a plugin that has no symbolic for that operator.
    """

    def __init__(self, sources: Iterable[Source], prefer: Mapping[str, str] | None = None) -> None:
        self._prefer = dict(prefer or {})
        self._all = sorted(sources, key=lambda source: source.plugin)
        self._claims: dict[str, list[Source]] = {}
        if self._prefer:
            self._check_preferences()
        self.conflicts = self._conflicts() if len({source.plugin for source in self._all}) > 1 else []

    def candidates(self, op: str, opset: int) -> list[Candidate]:
        """List the symbolics for an operator's overload at an opset, in calling order.

        Raises PluginConflict where plugins claim it and none wins.
        """
        if message := self.conflict(op):
            raise PluginConflict(message)
        return self.serving(op, opset)

    def serving(self, op: str, opset: int) -> list[Candidate]:
        """List the symbolics as in `candidates`, of conflicting plugins too."""
        return [
            Candidate(source, entry)
            for source in self._sources(op)
            for entry in reversed(source.table.versions(op))
            if entry.serves(opset)
        ]

    def conflict(self, op: str) -> str:
        """Describe the conflict of plugins over an operator, with the fix, or return ""."""
        sources = self._sources(op) if self.conflicts else []
        return "\n".join(_conflict((str(sources[0]), str(rival)), [op]) for rival in self._rivals(op, sources))

    def registered(self, op: str) -> list[Candidate]:
        """List the symbolics for an operator's overload at any opset, best table first."""
        return [Candidate(source, entry) for source in self._sources(op) for entry in source.table.versions(op)]

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """The operators of all tables, as they were registered."""
        return frozenset().union(*(source.table.operators() for source in self._all))

    @property
    def claims(self) -> tuple[frozenset[str], frozenset[str]]:
        """The operators of all tables, and of those that the user passed."""
        return self.operators, frozenset().union(*(source.table.operators() for source in self._all if source.user))

    def __bool__(self) -> bool:
        return any(len(source.table) for source in self._all)

    def _sources(self, op: str) -> list[Source]:
        """List the tables that claim an operator's overload, best first."""
        known = self._claims.get(op)
        if known is None:
            known = self._claims[op] = [source for source in self._all if source.table.versions(op)]
            if len(known) > 1:
                known.sort(key=lambda source: (self.rank(op, source), source.plugin, op not in source.table.operators()))
        return known

    def rank(self, op: str, source: Source) -> tuple[bool, bool, bool]:
        """Return a sort key that puts the user's, preferred and overriding tables first."""
        preferred = self._prefer.get(op) or self._prefer.get(op.partition(".")[0])
        return not source.user, source.plugin != preferred, not source.table.override

    def _check_preferences(self) -> None:
        claims = [(name, source) for source in self._all for name in source.table.operators()]
        for op, plugin in self._prefer.items():
            claimed = [source for name, source in claims if name == op or name.startswith(f"{op}.")]
            claiming = {source.plugin for source in (*claimed, *self._sources(op))}
            brought = [name for name, source in claims if source.plugin == plugin]
            if brought and plugin not in claiming:
                raise OptionError(
                    f"prefer: the plugin {plugin!r} has no symbolic for {op}{nearest(op, brought)}; "
                    f"{', '.join(sorted(claiming)) or 'no plugin'} has"
                )

    def _rivals(self, op: str, sources: list[Source]) -> list[Source]:
        """List the other plugins' tables that rank as high as the first one."""
        return [
            other for other in sources[1:]
            if other.plugin != sources[0].plugin and other.table is not sources[0].table
            and self.rank(op, other) == self.rank(op, sources[0])
        ]  # fmt: skip

    def _conflicts(self) -> list[str]:
        conflicts: dict[tuple[str, str], list[str]] = {}
        for op in self._contested():
            sources = self._sources(op)
            for rival in self._rivals(op, sources):
                conflicts.setdefault((str(sources[0]), str(rival)), []).append(op)
        return [_conflict(pair, sorted(ops)) for pair, ops in sorted(conflicts.items())]

    def _contested(self) -> list[str]:
        """List the operators with an overload that two plugins lower."""
        whole: dict[str, set[str]] = {}
        for source in self._all:
            whole.setdefault(source.plugin, set()).update(source.table.packets())
        shared = set().union(*(one & other for one, other in itertools.combinations(whole.values(), 2)))
        return [op for op in self.operators if op.partition(".")[0] in shared] if shared else []


def _conflict(pair: tuple[str, str], ops: list[str]) -> str:
    shown = ", ".join(ops[:5]) + (f" and {len(ops) - 5} more" if len(ops) > 5 else "")
    return (
        f"{pair[0]} and {pair[1]} both lower {shown}. Choose one with "
        f'`prefer = {{"{ops[0]}" = "..."}}` (in [tool.onnxexp], or prefer={{...}} in the call), switch one of them off, or set '
        "override=True on exactly one of their tables"
    )
