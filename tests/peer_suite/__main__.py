"""Run PyTorch's own ONNX tests, and write docs/reference/peer-suite.md.

    python -m tests.peer_suite [--runs NAME ...] [--exporters NAME ...] [--tests PATTERN]
                               [--failed] [--jobs N] [--page]

The tests run with onnxexp's functions, with torch.onnx after `onnxexp_torch_onnx.install()`, and with torch.onnx's exporter. The
results go into docs/reference/peer-suite.json after each run. A test that fails with onnxexp and is not in known.py is an error,
and so is one that is there and passes, or that fails after `install()` alone. A run of one `--tests` pattern is printed and not
written.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys

from . import page, sources
from .running import RUNS, Result, Run

EXPORTERS = ("onnxexp", "installed", "torch.onnx")


def main() -> int:
    given = _arguments()
    if not given.page:
        sources.prepare()
        from . import shims

        shims.install()
        _preload()
        for run in RUNS:
            if run.name in given.runs:
                for exporter in given.exporters:
                    _run(run, exporter, given)
    return _judge() if given.tests == "*" else 0


def _arguments() -> argparse.Namespace:
    names = [run.name for run in RUNS]
    parser = argparse.ArgumentParser(
        prog="python -m tests.peer_suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", nargs="+", default=names, choices=names, metavar="NAME", help=f"of {names}")
    parser.add_argument("--exporters", nargs="+", default=[*EXPORTERS], choices=EXPORTERS, metavar="NAME", help=f"of {EXPORTERS}")
    parser.add_argument("--tests", default="*", metavar="PATTERN", help="only the tests of such names")
    parser.add_argument("--failed", action="store_true", help="only the tests that failed before")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page of the results")
    return parser.parse_args()


def _preload() -> None:
    """Import what an export imports, once for all tests."""
    from tests.fresh.children import preload

    preload()


def _run(run: Run, exporter: str, given: argparse.Namespace) -> None:
    from .running import results

    failed = page.failures(run.name, exporter)

    def is_wanted(name: str) -> bool:
        return fnmatch.fnmatchcase(name, given.tests) and (name in failed or not given.failed)

    found: dict[str, Result] = {}
    for name, result in results(run, exporter, given.jobs, is_wanted):
        found[name] = result
        if result.outcome == "failed" or given.tests != "*":
            print(f"{run.name}: {exporter}: {name}: {result.outcome} {result.detail}", flush=True)
    if given.failed:
        page.amend(run.name, exporter, found)
    elif given.tests == "*":
        page.record(run.name, exporter, found)
    print(f"{run.name}: {exporter}: {page.counts(found)}", flush=True)


def _judge() -> int:
    """Write the page; report what differs from the list of known differences."""
    results = page.load()
    page.PAGE.write_text(page.text(results), encoding="utf-8")
    wrong = [*page.unexpected(results)]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
