"""Export every architecture, and write docs/reference/transformers.md.

    python -m tests.transformers.table [--seconds 300] [--only NAME] [--exporter NAME] [--redo STATUS]

The exporters are onnxexp and torch.onnx. Each export has a process of its own. Results go to build/transformers.jsonl as they
come; a second run goes on from there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from .architecture import architectures
from .exporters import EXPORTERS, Result, run
from .page import page

RESULTS = Path("build/transformers.jsonl")
PAGE = Path("docs/reference/transformers.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.transformers.table")
    parser.add_argument("--seconds", type=float, default=300, help="the time limit of an export")
    parser.add_argument("--only", default="", metavar="NAME", help="rows whose name contains NAME")
    parser.add_argument("--exporter", nargs="+", default=list(EXPORTERS), choices=list(EXPORTERS), help="run only these")
    parser.add_argument("--redo", nargs="*", default=[], metavar="STATUS", help="repeat the results with these statuses")
    parser.add_argument("--row", nargs=2, metavar=("ROW", "EXPORTER"), help="run one row in this process, and print its result")
    options = parser.parse_args()
    rows = {row.id: row for row in architectures()}
    if options.row:
        name, exporter = options.row
        print(json.dumps(dataclasses.asdict(run(rows[name], exporter))))
        return
    results = {(each.row, each.exporter): each for each in read() if each.row in rows and each.status not in options.redo}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("".join(json.dumps(dataclasses.asdict(each)) + "\n" for each in results.values()), "utf-8")
    for name in rows:
        for exporter in options.exporter:
            if options.only in name and (name, exporter) not in results:
                result = results[name, exporter] = in_process(name, exporter, options.seconds)
                print(f"{name}, {exporter}: {result.status} {result.message}", flush=True)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(dataclasses.asdict(result)) + "\n")
    PAGE.write_text(page(list(rows.values()), results), "utf-8")


def read() -> list[Result]:
    """Return the results of earlier runs."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    return [Result(**json.loads(line)) for line in lines]


def in_process(name: str, exporter: str, seconds: float) -> Result:
    """Run a row in a process of its own."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--row", name, exporter]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Result(name, exporter, "time", f"not finished after {seconds:.0f} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = done.stderr.strip().splitlines()[-1:] or [""]
        return Result(name, exporter, "error", f"the process ended with {done.returncode}: {last[0][:200]}")
    return Result(**json.loads(lines[-1]))


if __name__ == "__main__":
    main()
