"""The command `onnxexp sweep`."""

from __future__ import annotations

import argparse
import collections
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxexp import OptionError
from onnxexp.commands import Output
from onnxexp_sweep.zoo import FRONTENDS, Zoo, read_bytes
from onnxexp_sweep.zoo import read as read_zoo

if TYPE_CHECKING:
    from onnxexp_sweep.compare import Comparison
    from onnxexp_sweep.engine import Done

SUMMARY = "export the models of a zoo with many options, on one machine or many, and compare two such sweeps"

_OPSET = 20
_SHOWN = 20
"""The most failures, and changes of one kind, that are printed."""


EXAMPLES = (
    (
        "onnxexp sweep zoo.toml -o results --opset 13 20 --workers 4",
        "each model of the zoo at two opsets; a second run goes on where the first ended",
    ),
    ("onnxexp sweep zoo.toml -o results --html results.html", "with a page"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("zoo", nargs="?", type=Path, metavar="ZOO.toml", help="the models, see docs/how-to/sweep.md")
    group = parser.add_argument_group("the sweep")
    group.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder of results; a sweep that was stopped goes on")
    group.add_argument("--opset", type=int, nargs="+", metavar="N", help=f"the opsets (default: the zoo's, else {_OPSET})")
    group.add_argument(
        "--frontend", nargs="+", choices=FRONTENDS, metavar="HOW",
        help="auto, export, trace, script: `capture` of an export (default: the zoo's, else auto)",
    )  # fmt: skip
    group.add_argument(
        "--on", metavar="WHERE", default="local",
        help="local (default): workers on this machine; or a dask scheduler: dask://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT",
    )  # fmt: skip
    group.add_argument("--workers", type=int, metavar="N", help="the number of local workers (default: one for each core)")
    group.add_argument("--time", type=float, metavar="SECONDS", help="the limit of a cell's time (default: the zoo's, else 600)")
    group.add_argument(
        "--memory", metavar="SIZE",
        help='the limit of a cell\'s memory, such as "8 GB" (default: the zoo\'s, else that of its dask worker)',
    )  # fmt: skip
    group.add_argument(
        "--retry-failed", action="store_true", help="run the cells again that failed before with the same versions"
    )
    group = parser.add_argument_group("results")
    group.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="show what changed between two folders of results"
    )
    group.add_argument(
        "--slower", type=float, metavar="RATIO", default=1.5, help="report times from this ratio on (default: 1.5)"
    )
    group.add_argument(
        "--larger", type=float, metavar="RATIO", default=1.1, help="report sizes from this ratio on (default: 1.1)"
    )
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with the results, or with the comparison")


def run(options: argparse.Namespace, output: Output) -> int:
    """Run a sweep, or show results; return 1 if a cell failed, or fails that did not."""
    if options.compare is not None:
        if options.zoo is not None:
            raise OptionError("--compare shows two folders of results, and runs no zoo: leave one of them out")
        return _compare(options, output)
    if options.output is None:
        raise OptionError("give the folder of results by -o DIR")
    if options.zoo is None:
        if options.html is None:
            raise OptionError("give a zoo file to run it, or --html FILE for a page about the results in -o DIR")
        return _page(options, output)
    return _sweep(options, output)


def _sweep(options: argparse.Namespace, output: Output) -> int:
    zoo = read_zoo(options.zoo)
    from onnxexp_sweep.cell_list import cells_of

    opsets = options.opset or zoo.opsets or (_OPSET,)
    frontends = options.frontend or zoo.frontends or ("auto",)
    cells = cells_of(zoo, opsets, frontends, time=options.time or zoo.time or 600, memory=_memory(options, zoo))
    if not cells:
        raise OptionError(
            f"no model of {options.zoo} is for one of the opsets {list(opsets)} and frontends {list(frontends)}; choose others"
        )
    from onnxexp_sweep.engine import sweep

    workers = _workers(options)
    try:
        done = sweep(
            cells, options.output, on=options.on, workers=workers, preload=zoo.preload, retry_failed=options.retry_failed
        )
    except KeyboardInterrupt:
        output.line("the results so far are kept; the same command goes on", "yellow")
        raise
    _print_done(done, len(cells), options.output, output)
    if options.html is not None:
        _write_page(options, output)
    return 2 if done.unfinished else int(bool(done.failures))


def _print_done(done: Done, cells: int, folder: Path, output: Output) -> None:
    for status, name, reason in done.failures[:_SHOWN]:
        output.line(f"{status}: {name}: {reason}", "red")
    if len(done.failures) > _SHOWN:
        output.line(f"and {len(done.failures) - _SHOWN} more", "red")
    for name, reason in done.unfinished[:_SHOWN]:
        output.line(f"not run: {name}: {reason}", "yellow")
    counts = ", ".join(f"{number} {status}" for status, number in sorted(done.counts.items())) or "nothing to do"
    output.pairs(
        {
            "cells": f"{cells}: {done.skipped} done before, {sum(done.counts.values())} run now ({counts})",
            **({"not run": f"{len(done.unfinished)}; the same command goes on"} if done.unfinished else {}),
            "results": f"{folder}{_others(done.others)}",
            "seconds": f"{done.seconds:.1f}",
        }
    )
    output.document(
        {
            "cells": cells, "skipped": done.skipped, "others": done.others, "counts": done.counts,
            "unfinished": dict(done.unfinished),
            "failures": [{"status": status, "cell": name, "reason": reason} for status, name, reason in done.failures],
            "seconds": done.seconds,
        }
    )  # fmt: skip


def _others(count: int) -> str:
    return f", with {count} results of other models, options or versions" if count else ""


def _memory(options: argparse.Namespace, zoo: Zoo) -> int | None:
    if options.memory is None:
        return zoo.memory
    found = read_bytes(options.memory)
    if found is None:
        raise OptionError(f'--memory {options.memory}: expected a size, such as "8 GB" or 500MB')
    return found


def _workers(options: argparse.Namespace) -> int:
    if options.workers is not None and options.on != "local":
        raise OptionError("--workers is for --on local: a scheduler has its own workers; leave it out")
    if options.workers is not None and options.workers < 1:
        raise OptionError(f"--workers {options.workers}: give 1 or more")
    from dask.system import CPU_COUNT

    return int(options.workers or CPU_COUNT)


def _page(options: argparse.Namespace, output: Output) -> int:
    _write_page(options, output)
    output.document({"page": str(options.html)})
    return 0


def _write_page(options: argparse.Namespace, output: Output) -> None:
    from onnxexp_sweep.html_page import write
    from onnxexp_sweep.results import latest, read, rows

    write(options.html, f"Sweep: {options.output.resolve().name}", rows(latest(read(options.output), "cell")))
    output.line(f"wrote {options.html}")


def _compare(options: argparse.Namespace, output: Output) -> int:
    from onnxexp_sweep.compare import Thresholds, compare

    for name in ("slower", "larger"):
        if vars(options)[name] < 1:
            raise OptionError(f"--{name} {vars(options)[name]}: expected a ratio of 1 or more")
    first, second = options.compare
    found = compare(first, second, Thresholds(slower=options.slower, larger=options.larger))
    _print(found, output)
    if options.html is not None:
        from onnxexp_sweep.html_page import write
        from onnxexp_sweep.results import latest, read, rows

        write(options.html, f"Sweep: {first} and {second}", rows(latest(read(second), "cell")), found)
        output.line(f"wrote {options.html}")
    output.document(
        {
            "versions": list(found.versions), "same": found.same,
            "changes": {kind: [vars(each) for each in changes] for kind, changes in found.changes.items()},
        }
    )  # fmt: skip
    return int(found.worse)


def _print(found: Comparison, output: Output) -> None:
    for line in found.versions:
        output.line(line)
    for kind, changes in found.changes.items():
        if not changes:
            continue
        output.line()
        output.line(f"{kind}: {len(changes)}", "red" if kind == "newly failing" else "")
        output.table(["cell", "before", "now"], [[each.cell, each.before, each.after] for each in changes[:_SHOWN]])
        if len(changes) > _SHOWN:
            output.line(f"and {len(changes) - _SHOWN} more")
    counts: dict[str, Any] = collections.Counter({kind: len(changes) for kind, changes in found.changes.items() if changes})
    output.line()
    output.line(", ".join([f"{found.same} unchanged", *(f"{number} {kind}" for kind, number in counts.items())]))
