"""Cause faults: writers of one path, kills, full disks, hostile files, threads.

python -m tests.faults
python -m tests.faults races --out faults.json
python -m tests.faults --table faults.json
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .fault import ONNXEXP, Row
from .outputs import export_again

PARTS = ("races", "kills", "folder_kills", "disks", "files", "plugins", "threads")
"""The modules of this package, each with a tuple `FAULTS`."""


def main(argv: list[str] | None = None) -> int:
    options = _arguments(argv)
    if options.table:
        print(table([Row(**each) for each in json.loads(options.table.read_text("utf-8"))]))
        return 0
    rows: list[Row] = []
    for row in run(options.parts or PARTS):
        rows.append(row)
        if options.out:
            options.out.write_text(json.dumps([dataclasses.asdict(each) for each in rows], indent=1), "utf-8")
    print(table(rows))
    return int(any(row.bad for row in rows if row.exporter == ONNXEXP))


def run(parts: tuple[str, ...] | list[str]) -> Iterator[Row]:
    """Cause all faults of some parts, and yield the results."""
    for part in parts:
        export_again()
        for fault in importlib.import_module(f"{__package__}.{part}").FAULTS:
            for exporter in fault.exporters:
                row, began = Row(part, fault.name, exporter), time.monotonic()
                with tempfile.TemporaryDirectory(prefix=f"faults_{part}_") as folder:
                    fault.cause(row, Path(folder))
                seconds = time.monotonic() - began
                print(f"{part}: {fault.name}, {exporter}: {len(row.bad)} of {row.tries} bad, {seconds:.1f} s", file=sys.stderr)
                if row.counts:
                    print(f"    {', '.join(f'{count:,} {name}' for name, count in row.counts.items())}", file=sys.stderr)
                for problem in row.bad[:5]:
                    print(f"    {problem}", file=sys.stderr)
                yield row


def table(rows: list[Row]) -> str:
    """Build a Markdown table: a line for each fault, a column for each exporter."""
    exporters = list(dict.fromkeys(row.exporter for row in rows))
    lines = [f"| part | fault | {' | '.join(exporters)} |", "|---|---|" + "---|" * len(exporters)]
    for part, fault in dict.fromkeys((row.part, row.fault) for row in rows):
        found = {row.exporter: row for row in rows if (row.part, row.fault) == (part, fault)}
        cells = [f"{len(found[each].bad)} of {found[each].tries:,}" if each in found else "" for each in exporters]
        lines.append(f"| {part} | {fault} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help="only these parts")
    parser.add_argument("--out", type=Path, help="write the results to this file, as JSON")
    parser.add_argument("--table", type=Path, help="only print the table of the results in this file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
