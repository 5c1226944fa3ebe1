"""The cost of a sweep beside its exports: `python -m benchmarks.sweep_cost`.

The overhead of a cell is the time between two cells of one worker, less the steps of the cell, which are those of an export by
hand: load, export, write, check, verify. On a busy machine, the processor time of a further cell is the better figure: it
includes all processes, and the export too. A table of 10,000 cells is opened, and compared with another. The models of
`tests/models` are swept on one worker and on two, whose times are divided: some ten minutes, on a machine without other work.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxexp_sweep.results import SCHEMA, read, rows
from tests.models.test_models import CASES
from tests.sweep import model_zoo
from tests.sweep.rows import many
from tests.sweep.rows import rows as made

ROOT = Path(__file__).parents[1]
_STEPS = ("load", "export", "write", "check", "verify")


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep_cost", description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000, help="the cells of the table (default: %(default)s)")
    parser.add_argument("--opsets", type=int, default=8, help="the opsets of the sweep of a tiny model (default: %(default)s)")
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=CASES, default=list(CASES), help="sweep only these models")
    parser.add_argument("--only", choices=["table", "overhead", "workers"], help="only one of the measurements")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.only in (None, "table"):
            figures["table"] = table(Path(folder), options.cells)
        if options.only in (None, "overhead"):
            figures["overhead"] = overhead(Path(folder), options.opsets)
        if options.only in (None, "workers"):
            figures["workers"] = workers(Path(folder), options.models)
    print(json.dumps(figures, indent=2))


def table(folder: Path, count: int) -> dict[str, float]:
    """Measure the command that opens and compares two tables, in seconds.

    The figures are wall-clock and processor times.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, outcome in (("first", {}), ("second", {"export_seconds": 4.0})):
        (folder / name / "parts").mkdir(parents=True)
        found = pa.Table.from_pylist(list(made(many(count), **outcome)), SCHEMA)
        pq.write_table(found, folder / name / "cells.parquet")
    words = ["sweep", "--compare", str(folder / "first"), str(folder / "second"), "--json"]
    page = ["sweep", "-o", str(folder / "first"), "--html", str(folder / "page.html")]
    figures = {"cells": float(read(folder / "first").num_rows)}
    for label, command in (("compare", words), ("page", page)):
        begin, before = time.perf_counter(), _processor_time()
        subprocess.run([sys.executable, "-m", "onnxexp", *command], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        figures[f"{label}_seconds"] = time.perf_counter() - begin
        figures[f"{label}_processor_seconds"] = _processor_time() - before
    figures["page_megabytes"] = (folder / "page.html").stat().st_size / 1e6
    return figures


def overhead(folder: Path, opsets: int) -> dict[str, float]:
    """Measure sweeps of a tiny model on one worker, in seconds."""
    models = ROOT / "tests" / "sweep" / "zoo_models.py"
    listed = list(range(13, 13 + opsets))
    (folder / "zoo.toml").write_text(
        f'[sweep]\nopset = {listed}\nfrontend = ["export", "trace"]\n[models.tiny]\ntarget = "{models}:tiny"\n'
    )
    figures: dict[str, float] = {}
    spent = {}
    for name, opset in (("first_cells", [listed[0]]), ("all_cells", listed)):
        before = _processor_time()
        figures[f"{name}_seconds"] = _sweep(folder / "zoo.toml", folder / name, 1, "--opset", *map(str, opset))
        spent[name] = _processor_time() - before
    done = sorted(rows(read(folder / "all_cells")), key=lambda row: row["started"])
    steps = [sum(row[f"{step}_seconds"] for step in _STEPS) for row in done]
    begun = [row["started"].timestamp() for row in done]
    figures["steps_median"] = statistics.median(steps)
    figures["overhead_median"] = statistics.median(
        later - earlier - own for earlier, later, own in zip(begun, begun[1:], steps, strict=False)
    )
    figures["processor_seconds_per_cell"] = (spent["all_cells"] - spent["first_cells"]) / (2 * (opsets - 1))
    return figures


def workers(folder: Path, models: Sequence[str]) -> dict[str, Any]:
    """Measure sweeps of models of `tests/models` on one worker and on two.

    The figures are seconds, with the median cell of each sweep.
    """
    figures: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile("w", dir=ROOT, suffix=".toml") as zoo:  # the folder of the cells
        zoo.write(model_zoo.zoo(models))
        zoo.flush()
        for count, name in ((1, "one_worker"), (2, "two_workers")):
            figures[f"{name}_seconds"] = _sweep(Path(zoo.name), folder / name, count)
            found = rows(read(folder / name))
            figures[f"{name}_cells"] = collections.Counter(row["status"] for row in found)
            figures[f"{name}_cell_median"] = statistics.median(row["seconds"] for row in found)
            print(json.dumps(figures), file=sys.stderr)
    figures["two_workers_over_one"] = figures["two_workers_seconds"] / figures["one_worker_seconds"]
    return figures


def _sweep(zoo: Path, results: Path, count: int, *options: str) -> float:
    """Run a sweep on local workers, and return the seconds."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "onnxexp", "sweep", str(zoo), "-o", str(results), "--workers", str(count), *options]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _processor_time() -> float:
    """Return the processor time of the children that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
