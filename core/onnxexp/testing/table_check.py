"""`check_table`: is every entry of a table what it says it is, can it be reached, and is it tested?"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import onnx

import onnxexp
from onnxexp.symbolics.table import Symbolic, SymbolicTable
from onnxexp.testing import schema_agreement
from onnxexp.testing.case import Case

__all__ = ["check_table"]

FIRST, LAST = 9, 28
"""The opsets that can be exported to."""


def check_table(
    table: SymbolicTable, cases: Iterable[Case] | None = None, *, without_case: Mapping[str, str] | None = None
) -> None:
    """Check every entry of a table: that

    * torch (or a library that is imported) has an operator, and overload, of that name;
    * the function takes as many arguments as the schema has (for a whole name: as each of its overloads has that no entry of
      its own serves), and, one-to-one, ONNX has the operator;
    * its docstring begins with the torch schema of one of the operators that it is registered for, and its parameters have the
      names of that schema's arguments (``from_`` where Python does not allow ``from``). ``...`` may stand for the last arguments
      of a long schema; sizes may be int or SymInt;
    * it can be reached: `since` and `until` leave an opset from 9 to 28 at which it is the first to be asked;
    * a case calls it. The cases are lowered for this, at one opset for each entry, and not run.

    Args:
        table: The table.
        cases: Such as ``cases_of(tests)`` gives; None: whether every entry is tested is not looked at.
        without_case: Operators that no case can call, with the reason for each.

    Raises:
        AssertionError: lists everything that is wrong, by file and line.
        TypeError: `table` is none, but perhaps the plugin that has it.
    """
    if not isinstance(table, SymbolicTable):
        raise TypeError(f"{table!r} is no SymbolicTable; give the tables that a plugin has in its `symbolics` one by one")
    entries = list(table)
    problems = [
        *_unknown(entries),
        *_misfits(table, entries),
        *_misdocumented(entries),
        *_unreachable(table, entries),
    ]
    if cases is not None:
        problems += _uncovered(table, list(cases), without_case or {})
    if problems:
        lines = sorted({f"{entry.location or 'one-to-one'}: {entry.op}{_since(entry)}: {what}" for entry, what in problems})
        raise AssertionError(
            f"{len(lines)} problem{'s' if len(lines) > 1 else ''} in the table of {table.namespace}:\n" + "\n".join(lines)
        )


def _since(entry: Symbolic) -> str:
    return f" (since={entry.since})" if entry.since else ""


def _unknown(entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    for entry in entries:
        problem = schema_agreement.unknown(entry.op)
        if problem:
            yield entry, problem


def _misfits(table: SymbolicTable, entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    hidden = [op for op in table.operators() if "." in op]
    for entry in entries:
        if not entry.direct:
            yield from ((entry, problem) for problem in schema_agreement.arity(entry.function, entry.op, hidden))
        elif not onnx.defs.has(entry.direct):
            yield entry, f"ONNX has no operator {entry.direct}"


def _misdocumented(entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    served: dict[Callable[..., Any], list[Symbolic]] = {}
    for entry in entries:
        if not entry.direct and schema_agreement.schemas(entry.op):
            served.setdefault(entry.function, []).append(entry)
    for function, shared in served.items():
        problem = schema_agreement.docstring(function, [entry.op for entry in shared])
        if problem:
            yield shared[0], problem


def _unreachable(table: SymbolicTable, entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    for entry in entries:
        if entry.since and not FIRST <= entry.since <= LAST:
            yield entry, f"since={entry.since} is no opset from {FIRST} to {LAST}"
        elif not _opsets(table, entry):
            others = [f"since={other.since}" for other in table.versions(entry.op) if other is not entry]
            yield entry, f"it is asked first at no opset from {FIRST} to {LAST}; there is also {', '.join(others) or 'until'}"


def _opsets(table: SymbolicTable, entry: Symbolic) -> list[int]:
    """The opsets at which an entry is the first to be asked, the last one first."""
    return [opset for opset in range(LAST, FIRST - 1, -1) if table.find(entry.op, opset) is entry]


# Is every entry called by a case?


def _uncovered(table: SymbolicTable, cases: list[Case], excused: Mapping[str, str]) -> Iterator[tuple[Symbolic, str]]:
    opsets = {_key(entry): (entry, _opsets(table, entry)) for entry in table}
    called = _called(table, cases, {key: opsets for key, (_, opsets) in opsets.items()}, set(excused))
    for key, (entry, reachable) in opsets.items():
        if entry.op in excused and key in called:
            yield entry, f"a case calls it; it is excused because {excused[entry.op]}"
        elif reachable and key not in called and entry.op not in excused:
            yield entry, "no case calls it"


def _key(entry: Symbolic) -> tuple[str, int]:
    return entry.op, entry.since


def _called(
    table: SymbolicTable, cases: list[Case], opsets: Mapping[tuple[str, int], list[int]], excused: set[str]
) -> set[tuple[str, int]]:
    """The entries that the cases call.

    Each case is lowered at its last opset, with what it has dynamic. Where that leaves an entry out, those cases that called
    another version of it are lowered once more, at an opset that is the entry's; at last the cases that are dynamic are lowered
    as static ones.
    """
    done: set[tuple[str, int]] = set()
    ops: dict[Case, set[str]] = {}
    with _recording(table) as record:

        def lower(case: Case, opset: int, *, dynamic: bool) -> None:
            record.clear()
            # What fails or warns is another test's concern: here only counts who was asked.
            with contextlib.suppress(onnxexp.OnnxExporterError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                onnxexp.check(case.model(), **case.arguments(opset, dynamic=dynamic))
            ops.setdefault(case, set()).update(op for op, _ in record)
            done.update(record)

        for chosen in ([(case, bool(case.dynamic)) for case in cases], [(case, False) for case in cases if case.dynamic]):
            for case, dynamic in chosen:
                lower(case, max(case.opsets), dynamic=dynamic)
            for key in opsets.keys() - done:
                for case, dynamic in chosen:
                    opset = next((opset for opset in opsets[key] if opset in case.opsets), None)
                    hidden = key[0] in ops[case] or table.find(key[0], max(case.opsets)) is None
                    if key not in done and opset is not None and hidden:
                        lower(case, opset, dynamic=dynamic)
            if all(op in excused for op, _ in opsets.keys() - done):
                break
    return done


@contextlib.contextmanager
def _recording(table: SymbolicTable) -> Iterator[set[tuple[str, int]]]:
    """Inside, every entry of the table that is called puts its operator and `since` into the set."""
    record: set[tuple[str, int]] = set()
    entries = table._entries
    table._entries = {op: [_noting(entry, record) for entry in versions] for op, versions in entries.items()}
    try:
        yield record
    finally:
        table._entries = entries


def _noting(entry: Symbolic, record: set[tuple[str, int]]) -> Symbolic:
    @functools.wraps(entry.function)
    def noting(*args: Any) -> Any:
        record.add(_key(entry))
        return entry.function(*args)

    return dataclasses.replace(entry, function=noting)
