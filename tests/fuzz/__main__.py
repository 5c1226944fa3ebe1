"""Export random programs, and compare the models with eager.

python -m tests.fuzz --seed 1000 --minutes 10 --jobs 2 --out fuzz.jsonl
python -m tests.fuzz --seed 1234 --show
python -m tests.fuzz --out fuzz.jsonl --report
python -m tests.fuzz --count 300 --peers
python -m tests.fuzz --count 2000 --frontend export --out export.jsonl; the same with trace; then
python -m tests.fuzz --differences export.jsonl trace.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

from .campaign import Campaign, warm
from .generator import generate
from .judging import FAILURES
from .minimising import minimised, outcome_in_child
from .program import FRONTENDS
from .report import read_results, report, report_of_frontends


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first program; the others have the following numbers")
    parser.add_argument("--count", type=int, help="the number of programs")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="the number of programs at a time")
    parser.add_argument("--limit", type=float, default=60, help="the time limit of one program in seconds")
    parser.add_argument("--out", type=Path, default=Path("fuzz.jsonl"), help="the results; programs in there are skipped")
    parser.add_argument(
        "--redo", nargs="*", default=[], help="repeat programs with one of these outcomes, or causes that contain it"
    )
    parser.add_argument("--frontend", choices=FRONTENDS, help="only this frontend")
    parser.add_argument("--opset", type=int, help="only this opset")
    parser.add_argument("--peers", action="store_true", help="measure torch.onnx's exporters on the same programs")
    parser.add_argument("--show", action="store_true", help="print the first program and its smallest form")
    parser.add_argument(
        "--differences", nargs=2, type=Path, metavar="FILE", help="only print what one of two frontends refuses, by cause"
    )
    parser.add_argument("--report", action="store_true", help="only print the report of the results")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = _arguments(argv)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder, mock.patch.object(tempfile, "tempdir", folder):
        return _main(options)


def _main(options: argparse.Namespace) -> int:
    if options.differences:
        print(report_of_frontends(*map(read_results, options.differences)))
        return 0
    if options.show:
        return _show(options)
    if not options.report:
        count = options.count if options.count is not None or options.minutes else 100
        seeds = range(options.seed, options.seed + count) if count is not None else itertools.count(options.seed)
        Campaign(options).run(seeds)
    results = read_results(options.out)
    print(report(results))
    counts = Counter(result.outcome for result in results if result.exporter == "onnxexp")
    return int(any(counts[outcome] for outcome in FAILURES))


def _show(options: argparse.Namespace) -> int:
    warm([options.frontend or generate(options.seed).frontend])
    program = generate(options.seed, options.frontend, options.opset)
    print(program.reproduction)
    result = outcome_in_child(program, "onnxexp", options.limit)
    print(f"# {result.outcome} {result.sizes}: {result.detail}")
    if result.outcome not in ("pass", "eager", "rounding"):
        smallest = minimised(program, result, lambda each: outcome_in_child(each, "onnxexp", options.limit))
        print(f"\n# The smallest program:\n{smallest.source}\n# {smallest.outcome} {smallest.sizes}: {smallest.detail}")
    return int(result.outcome in FAILURES)


if __name__ == "__main__":
    sys.exit(main())
