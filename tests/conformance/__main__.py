"""Measure exporters on PyTorch's operator database and on quantized operators.

python -m tests.conformance --opset 20 --dtype float32 int64 bool --samples 2 --out results.jsonl
python -m tests.conformance --exporter dynamo script --every 10 --out peers.jsonl
python -m tests.conformance --quantized --exporter export trace --out results.jsonl
python -m tests.conformance --extremes --exporter trace --out results.jsonl
python -m tests.conformance --out results.jsonl --report failures
python -m tests.conformance --out results.jsonl peers.jsonl --report table > docs/reference/operators.md
python -m tests.conformance --quantized --out results.jsonl --report table > docs/reference/quantized-operators.md

Seconds are the processor time of the exports alone, without a tiny first export of each exporter in a process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from types import ModuleType

from . import extremes, quantized, samples
from .exporters import EXPORTERS
from .judging import Result
from .page import operator_page
from .parts import of_part
from .quantized_page import quantized_page
from .running import Runner, read_results, tasks_of
from .tables import failures, rates
from .worker import key


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.conformance", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        nargs="+",
        required=True,
        help="files of results, one JSON line each; their samples are skipped, and new results are appended to the first file",
    )
    parser.add_argument(
        "--exporter", nargs="+", default=["export"], choices=EXPORTERS, help="export, trace: onnxexp; dynamo, script: torch.onnx"
    )
    parser.add_argument("--quantized", action="store_true", help="the operators on quantized tensors, which OpInfo does not have")
    parser.add_argument(
        "--extremes", action="store_true", help="the operators with NaN, infinities, limits, 0-d and empty tensors"
    )
    parser.add_argument("--opset", nargs="+", type=int, help="20 by default, and 21 with --quantized")
    parser.add_argument(
        "--dtype",
        nargs="+",
        choices=[*dict.fromkeys((*samples.DTYPES, *quantized.DTYPES))],
        help="float32, int64 and bool by default; float32, int64 and float16 with --extremes; all dtypes with --quantized",
    )
    parser.add_argument(
        "--samples", type=int, help="the number of samples of each operator and dtype: 2 by default, and all with --quantized"
    )
    parser.add_argument("--op", nargs="+", default=[], help="only operators whose names contain one of these texts")
    parser.add_argument("--every", type=int, default=1, help="only every N-th operator")
    parser.add_argument("--shard", default="1/1", help="one part of the operators, such as 2/4")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--limit", type=float, default=60, help="the time limit of one sample in seconds")
    parser.add_argument("--redo", nargs="*", default=[], help="repeat samples with one of these outcomes (wrong, crash, ...)")
    parser.add_argument("--report", choices=["rates", "failures", "table"], help="only print a report of the results")
    options = parser.parse_args(argv)
    options.opset = options.opset or [21 if options.quantized else 20]
    options.dtype = options.dtype or (("float32", "int64", "bool") if _part(options) is samples else _part(options).DTYPES)
    options.samples = options.samples or (len(_part(options).ROWS) if options.quantized or options.extremes else 2)
    return options


def _part(options: argparse.Namespace) -> ModuleType:
    return quantized if options.quantized else extremes if options.extremes else samples


def main(argv: list[str] | None = None) -> int:
    options = _arguments(argv)
    if options.report is None:
        _run(options)
    known = _known(options)
    results = of_part(known, _part(options))
    if options.report == "failures":
        print(failures(results))
    elif options.report == "table":
        print(quantized_page(results) if options.quantized else operator_page(results, of_part(known, extremes)))
    else:
        print(rates(results))
    return 0


def _known(options: argparse.Namespace) -> list[Result]:
    """Read the results in the files.

    A later result replaces an earlier one of the same sample.
    """
    results = (result for path in options.out for result in read_results(path))
    return list({_key(result): result for result in results}.values())


def _key(result: Result) -> str:
    return key(result.op, result.dtype, result.sample, result.opset, result.exporter)


def _run(options: argparse.Namespace) -> None:
    if options.redo:
        for path in options.out:
            _rewrite(path, [result for result in read_results(path) if result.outcome not in options.redo])
    done = {_key(result) for result in _known(options)}
    shard, shards = map(int, options.shard.split("/"))
    part = _part(options)
    names = [name for name in part.operators() if not options.op or any(wanted in name for wanted in options.op)]
    chosen = names[:: options.every][shard - 1 :: shards]
    pairs = [(name, dtype) for name in chosen for dtype in part.dtypes_of(name) if dtype in options.dtype]
    with options.out[0].open("a", encoding="utf-8") as out:
        Runner(out, options.jobs, options.limit).run(tasks_of(pairs, options.samples, options.opset, options.exporter, done))


def _rewrite(path: Path, results: list[Result]) -> None:
    path.write_text("".join(json.dumps(dataclasses.asdict(result)) + "\n" for result in results), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
