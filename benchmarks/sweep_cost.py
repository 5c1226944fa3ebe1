"""What a sweep costs beside its exports: `python -m benchmarks.sweep_cost`.

The overhead of a cell is the time between two cells of one worker, less the steps of the cell, which are those of an export by
hand: load, export, write, check, verify. On a busy machine, take the processor time of a further cell: it has all processes in
it, and the export too. The time of a sweep on two workers is divided by that on one. And a table of 10,000 cells is opened, and
compared with another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from onnxexp_sweep.results import SCHEMA, read, rows
from tests.sweep.rows import many
from tests.sweep.rows import rows as made

ROOT = Path(__file__).parents[1]
_STEPS = ("load", "export", "write", "check", "verify")


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep_cost", description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000, help="the cells of the table (default: %(default)s)")
    parser.add_argument("--opsets", type=int, default=8, help="the opsets of the sweep of a tiny model (default: %(default)s)")
    parser.add_argument("--only", choices=["table", "overhead"], help="only one of the measurements")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "overhead":
            figures["table"] = table(Path(folder), options.cells)
        if options.only != "table":
            figures["overhead"] = overhead(Path(folder), options.opsets)
    print(json.dumps(figures, indent=2))


def table(folder: Path, count: int) -> dict[str, float]:
    """Measure the command that opens and compares two tables, wall-clock and processor time in seconds."""
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
    """Measure sweeps of a tiny model on one and two workers, in seconds."""
    models = ROOT / "tests" / "sweep" / "zoo_models.py"
    listed = list(range(13, 13 + opsets))
    (folder / "zoo.toml").write_text(
        f'[sweep]\nopset = {listed}\nfrontend = ["export", "trace"]\n[models.tiny]\ntarget = "{models}:tiny"\n'
    )
    figures: dict[str, float] = {}
    spent = {}
    for name, workers, opset in (("first_cells", 1, [listed[0]]), ("one_worker", 1, listed), ("two_workers", 2, listed)):
        results = folder / name
        chosen = ["--workers", str(workers), "--opset", *map(str, opset)]
        begin, before = time.perf_counter(), _processor_time()
        command = [sys.executable, "-m", "onnxexp", "sweep", str(folder / "zoo.toml"), "-o", str(results), *chosen]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        figures[f"{name}_seconds"] = time.perf_counter() - begin
        spent[name] = _processor_time() - before
        if name == "one_worker":
            done = sorted(rows(read(results)), key=lambda row: row["started"])
            steps = [sum(row[f"{step}_seconds"] for step in _STEPS) for row in done]
            begun = [row["started"].timestamp() for row in done]
            figures["steps_median"] = statistics.median(steps)
            figures["overhead_median"] = statistics.median(
                later - earlier - own for earlier, later, own in zip(begun, begun[1:], steps, strict=False)
            )
            more = spent["one_worker"] - spent["first_cells"]
            figures["processor_seconds_per_cell"] = more / (2 * (opsets - 1))
            print(json.dumps(figures), file=sys.stderr)
    figures["two_workers_over_one"] = figures["two_workers_seconds"] / figures["one_worker_seconds"]
    return figures


def _processor_time() -> float:
    """The processor time of the children that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
