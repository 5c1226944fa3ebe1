"""Run the tests with other versions, and write docs/reference/compatibility.md.

    python -m tests.compat [--only NAME ...] [--again NAME ...] [--failed NAME ...] [--parts PART ...] [--page] [--keep]
                           [--work FOLDER] [--jobs N]

An environment has the sources of the last commit. Each result is written into docs/reference/compatibility.json as it comes; a
second run goes on from there. An environment takes up to 8 GB, and is removed after its row; with --keep it stays, and --failed
repeats the tests that failed in it, with the commit that mends them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import parts
from .environments import ROWS, Row, row
from .installing import InstallationError, Installed, remove
from .page import PAGE, page
from .results import Results, load, save

WORK = Path(tempfile.gettempdir()) / "onnxexp-compat"


def main() -> int:
    given = _arguments()
    for name in given.failed:
        _failed(row(name), given)
    results = load()
    for name in given.again:
        for part in given.parts:
            results.get(name, {}).pop(part, None)
    for each in [] if given.page or given.failed else ROWS:
        missing = [part for part in given.parts if part not in results.get(each.name, {})]
        if missing and (not (given.only or given.again) or each.name in (*given.only, *given.again)):
            _row(each, missing, given)
    _write(load())
    return 0


def _arguments() -> argparse.Namespace:
    names = [each.name for each in ROWS]
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], choices=names, metavar="NAME", help="only these rows")
    parser.add_argument("--again", nargs="+", default=[], choices=names, metavar="NAME", help="only these rows, repeated")
    parser.add_argument(
        "--failed", nargs="+", default=[], choices=names, metavar="NAME", help="only the failed tests of these rows"
    )
    parser.add_argument(
        "--parts", nargs="+", default=[*parts.PARTS], choices=[*parts.PARTS], metavar="PART", help="only these parts"
    )
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page of the results")
    parser.add_argument("--keep", action="store_true", help="keep the environments, for a later run")
    parser.add_argument("--work", type=Path, default=WORK, metavar="FOLDER", help="the folder of the environments: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args()


def _row(row: Row, missing: list[str], given: argparse.Namespace) -> None:
    """Run what is missing of a row; a part that fails is a result."""
    environment = Installed(row, given.work.resolve())
    _progress(f"{row.name}: the environment")
    try:
        environment.make(row)
    except InstallationError as error:
        _progress(f"{row.name}: {error}")
        for part in missing:
            _record(row, part, {"problem": str(error)}, environment.commit)
        return
    for part in missing:
        _progress(f"{row.name}: {part}")
        _record(row, part, parts.run(environment, part, given.jobs), environment.commit)
    if not given.keep:
        remove(row, given.work.resolve())


def _failed(row: Row, given: argparse.Namespace) -> None:
    """Repeat the failed tests of a row in the environment that --keep has left."""
    environment = Installed(row, given.work.resolve())
    if not environment.is_complete:
        sys.exit(
            f"{row.name}: its environment is not in {given.work}; make it, and run its tests, with --again {row.name} --keep"
        )
    environment.make(row)
    _progress(f"{row.name}: the failed tests")
    figures = load()[row.name]["tests"]
    if any(name.startswith("::") for name in figures["failures"]):  # pytest would repeat none of the tests of such a file
        sys.exit(f"{row.name}: files failed before their tests were known; run all tests with --again {row.name} --parts tests")
    _record(row, "tests", parts.run_failed(environment, figures), figures["commit"])


def _record(row: Row, part: str, figures: dict[str, Any], commit: str) -> None:
    """Add a result to the file as it is now: another row may run at the same time."""
    results = load()
    stamp = {"commit": commit, "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
    results.setdefault(row.name, {})[part] = figures | stamp
    _write(results)


def _write(results: Results) -> None:
    ordered = {each.name: results[each.name] for each in ROWS if each.name in results}
    save(ordered)
    PAGE.write_text(page(ordered), "utf-8")


def _progress(text: str) -> None:
    now = datetime.datetime.now().strftime("%H:%M:%S")
    print(f"{now} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
