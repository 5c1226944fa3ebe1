"""Check the entries of a symbolic table by schema, docstring, opsets and tests."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import onnx
import torch
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import onnxexp
from onnxexp._symbolics.table import Symbolic, SymbolicTable
from onnxexp.testing import _schema_agreement as schema_agreement
from onnxexp.testing._case import Case

FIRST, LAST = 9, 28
"""The range of target opsets."""
NEWEST = onnx.defs.onnx_opset_version()
"""The last opset that the installed onnx knows."""


def check_table(
    table: SymbolicTable,
    cases: Iterable[Case] | None = None,
    *,
    without_case: Mapping[str, str] | None = None,
    torch_versions: Mapping[str, str] | None = None,
) -> None:
    """Check every entry of a table.

    * torch, or an imported library, defines the operator and overload.
    * The function accepts as many arguments as the schema has. An entry for a whole name must accept each overload without an
      entry of its own. For a one-to-one entry, ONNX defines the operator.
    * The docstring begins with the torch schema of one of the entry's operators, and the parameters have the names in that schema
      (``from_`` for the keyword ``from``). ``...`` may replace the last arguments of a long schema; sizes may be int or SymInt.
    * The entry is reachable: at some opset from 9 to 28, `since` and `until` make it the first choice.
    * A case calls it. The cases are lowered for this check, at one opset for each entry, and not run.

    Args:
        table: The table.
        cases: The cases, for instance from ``cases_of(tests)``; None skips the last check.
        without_case: Operators that no case can call, each with the reason.
        torch_versions: Operators that only some versions of torch define, as ``{"aten::qr": "<2.15"}``. With another torch, they
            must not exist, and their entries are not checked.

    Raises:
        AssertionError: An entry fails a check. The message lists all problems by file and line.
        TypeError: `table` is no SymbolicTable, for instance the plugin that contains it.
    """
    if not isinstance(table, SymbolicTable):
        raise TypeError(f"{table!r} is no SymbolicTable; pass the tables in a plugin's `symbolics` one by one")
    absent = {op for op, versions in (torch_versions or {}).items() if not _installed_torch_is(versions)}
    entries = [entry for entry in table if entry.op not in absent]
    problems = [
        *((entry, "torch defines it") for entry in table if entry.op in absent and not schema_agreement.unknown(entry.op)),
        *_unknown(entries),
        *_wrong_signatures(table, entries),
        *_wrong_docstrings(entries),
        *_unreachable(table, entries),
    ]
    if cases is not None:
        problems += _untested(table, list(cases), dict.fromkeys(absent, "torch lacks it") | dict(without_case or {}))
    if problems:
        lines = sorted({f"{entry.location or 'one-to-one'}: {entry.op}{_since(entry)}: {what}" for entry, what in problems})
        raise AssertionError(
            f"{len(lines)} problem{'s' if len(lines) > 1 else ''} in the table of {table.namespace}:\n" + "\n".join(lines)
        )


def _installed_torch_is(versions: str) -> bool:
    return SpecifierSet(versions).contains(Version(torch.__version__).base_version)


def _since(entry: Symbolic) -> str:
    return f" (since={entry.since})" if entry.since else ""


def _unknown(entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    for entry in entries:
        problem = schema_agreement.unknown(entry.op)
        if problem:
            yield entry, problem


def _wrong_signatures(table: SymbolicTable, entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
    hidden = [op for op in table.operators() if "." in op]
    for entry in entries:
        if not entry.direct:
            yield from ((entry, problem) for problem in schema_agreement.arity(entry.function, entry.op, hidden))
        elif entry.since <= NEWEST and not onnx.defs.has(entry.direct):
            yield entry, f"ONNX has no operator {entry.direct}"


def _wrong_docstrings(entries: list[Symbolic]) -> Iterator[tuple[Symbolic, str]]:
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
            yield entry, f"no opset from {FIRST} to {LAST} selects it first; there is also {', '.join(others) or 'until'}"


def _opsets(table: SymbolicTable, entry: Symbolic) -> list[int]:
    """Return the opsets at which an entry is the first choice, in descending order."""
    return [opset for opset in range(LAST, FIRST - 1, -1) if table.find(entry.op, opset) is entry]


# Is every entry called by a case?


def _untested(table: SymbolicTable, cases: list[Case], excused: Mapping[str, str]) -> Iterator[tuple[Symbolic, str]]:
    opsets = {_key(entry): (entry, _opsets(table, entry)) for entry in table}
    called = _called_entries(table, cases, {key: opsets for key, (_, opsets) in opsets.items()}, set(excused))
    for key, (entry, reachable) in opsets.items():
        if entry.op in excused and key in called:
            yield entry, f"a case calls it, although `without_case` excuses it: {excused[entry.op]}"
        elif any(opset <= NEWEST for opset in reachable) and key not in called and entry.op not in excused:
            yield entry, "no case calls it"


def _key(entry: Symbolic) -> tuple[str, int]:
    return entry.op, entry.since


def _called_entries(
    table: SymbolicTable, cases: list[Case], opsets: Mapping[tuple[str, int], list[int]], excused: set[str]
) -> set[tuple[str, int]]:
    """Return the entries that the cases call.

    Each case is lowered at its last opset with its dynamic axes. For each entry still missing, the cases that called another
    version of it are lowered at one of the entry's opsets. Finally the dynamic cases are lowered as static ones.
    """
    done: set[tuple[str, int]] = set()
    ops: dict[Case, set[str]] = {}
    with _record_calls(table) as record:

        def lower(case: Case, opset: int, *, dynamic: bool) -> None:
            record.clear()
            # Failures and warnings are checked by other tests; only the called entries matter here.
            with contextlib.suppress(onnxexp.OnnxExporterError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                onnxexp.check(case.model(), **case.arguments(opset, dynamic=dynamic))
            ops.setdefault(case, set()).update(op for op, _ in record)
            done.update(record)

        for chosen in ([(case, bool(case.dynamic)) for case in cases], [(case, False) for case in cases if case.dynamic]):
            for case, dynamic in chosen:
                lower(case, _highest(case), dynamic=dynamic)
            for key in opsets.keys() - done:
                for case, dynamic in chosen:
                    opset = next((opset for opset in opsets[key] if opset in case.opsets and opset <= NEWEST), None)
                    hidden = key[0] in ops[case] or table.find(key[0], _highest(case)) is None
                    if key not in done and opset is not None and hidden:
                        lower(case, opset, dynamic=dynamic)
            if all(op in excused for op, _ in opsets.keys() - done):
                break
    return done


def _highest(case: Case) -> int:
    """Return a case's highest opset of the installed onnx, else its lowest opset."""
    return max((opset for opset in case.opsets if opset <= NEWEST), default=min(case.opsets))


@contextlib.contextmanager
def _record_calls(table: SymbolicTable) -> Iterator[set[tuple[str, int]]]:
    """Collect the (operator, since) pairs of the entries called inside the `with`."""
    record: set[tuple[str, int]] = set()
    entries = table._entries
    table._entries = {op: [_with_record(entry, record) for entry in versions] for op, versions in entries.items()}
    try:
        yield record
    finally:
        table._entries = entries


def _with_record(entry: Symbolic, record: set[tuple[str, int]]) -> Symbolic:
    @functools.wraps(entry.function)
    def recorded(*args: Any) -> Any:
        record.add(_key(entry))
        return entry.function(*args)

    return dataclasses.replace(entry, function=recorded)
