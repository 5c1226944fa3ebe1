"""The results beside the known differences, and docs/reference/peer-suite.md."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from .known import KNOWN, Known
from .running import RUNS, Result

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "peer-suite.md"
_RESULTS = PAGE.with_suffix(".json")

Results = dict[str, Any]
"""`versions`, and `runs`: by the name of a run and an exporter, the counts and the errors of the tests that failed."""

_INTRODUCTION = """\
# PyTorch's own ONNX tests

PyTorch 2.6 has tests of its exporter in `test/onnx`. `make peer-suite` downloads them and runs them three times: with
torch.onnx's TorchScript exporter of this release, with `onnxexp_torch_onnx.export` in its place, and with torch.onnx's names in a
process with `onnxexp_torch_onnx.install()`. torch's own code compares the results of ONNX Runtime with eager PyTorch. Each test
runs in a process of its own, in which nothing was exported before.

A test that expects a refusal passes if the export is right instead. Some tests skip themselves at an opset, or in a script.
"""


def load() -> Results:
    """Return the results that are on file."""
    if not _RESULTS.exists():
        return {"versions": {}, "runs": {}}
    results: Results = json.loads(_RESULTS.read_text("utf-8"))
    return results


def record(run: str, exporter: str, found: Mapping[str, Result]) -> None:
    """Put the results of a whole run in the place of the earlier ones."""
    results = load()
    results["versions"] = {each.__name__: each.__version__ for each in (torch, onnx, onnxruntime)}
    failed = {name: each.detail for name, each in sorted(found.items()) if each.outcome == "failed"}
    results["runs"].setdefault(run, {})[exporter] = {"counts": counts(found), "failed": failed}
    _RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def failures(run: str, exporter: str) -> Mapping[str, str]:
    """Return the tests that failed in the last run, with their errors."""
    failed: Mapping[str, str] = load()["runs"].get(run, {}).get(exporter, {"failed": {}})["failed"]
    return failed


def amend(run: str, exporter: str, found: Mapping[str, Result]) -> None:
    """Record tests that failed before and ran again."""
    results = load()
    entry = results["runs"][run][exporter]
    for name, result in found.items():
        del entry["failed"][name]
        entry["counts"]["failed"] -= 1
        entry["counts"][result.outcome] += 1
        if result.outcome == "failed":
            entry["failed"][name] = result.detail
    entry["failed"] = dict(sorted(entry["failed"].items()))
    _RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def counts(found: Mapping[str, Result]) -> dict[str, int]:
    """Count the tests by what they did."""
    count = collections.Counter(each.outcome for each in found.values())
    return {outcome: count[outcome] for outcome in ("passed", "failed", "skipped")}


def unexpected(results: Results, known: Sequence[Known] = KNOWN) -> Iterator[str]:
    """Describe tests that fail and are not known to, and known ones that do not fail."""
    for run, by_exporter in results["runs"].items():
        failed = by_exporter.get("onnxexp", {"failed": {}})["failed"]
        installed = by_exporter.get("installed", {"failed": failed})["failed"]
        for test in sorted(installed.keys() - failed.keys()):
            yield f"{run}: {test} fails with install() alone: {installed[test]}"
        listed = {test for each in known if run in each.runs for test in each.tests}
        for test in sorted(failed.keys() - listed):
            yield f"{run}: {test} fails, and is not in tests/peer_suite/known.py: {failed[test]}"
        for test in sorted(listed - failed.keys()):
            yield f"{run}: {test} is in tests/peer_suite/known.py, and does not fail"


def text(results: Results, known: Sequence[Known] = KNOWN) -> str:
    """Return the page."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [_INTRODUCTION, f"Measured with {versions}.", ""]
    lines += ["| tests | onnxexp passes | with `install()` | torch.onnx passes | skipped |", "|---|---|---|---|---|"]
    lines += [_row(run.name, results["runs"][run.name]) for run in RUNS if run.name in results["runs"]]
    lines += ["", "## What fails with onnxexp", "", "| tests | where | reason |", "|---|---|---|"]
    lines += [f"| {_names(each.tests)} | {'; '.join(each.runs)} | {each.reason} |" for each in known]
    lines += ["", "## What fails with torch.onnx", "", "| test | where | error |", "|---|---|---|"]
    lines += _failures_of_torch(results)
    return "\n".join(lines) + "\n"


def _row(name: str, by_exporter: Mapping[str, Any]) -> str:
    cells = [
        _passed(by_exporter[exporter]["counts"]) if exporter in by_exporter else "not run"
        for exporter in ("onnxexp", "installed", "torch.onnx")
    ]
    skipped = next(iter(by_exporter.values()))["counts"]["skipped"]
    return f"| {name} | {' | '.join(cells)} | {skipped} |"


def _passed(count: Mapping[str, int]) -> str:
    return f"{count['passed']} of {count['passed'] + count['failed']}"


def _failures_of_torch(results: Results) -> list[str]:
    where: dict[str, list[str]] = {}
    errors: dict[str, str] = {}
    for run, by_exporter in results["runs"].items():
        for test, error in by_exporter.get("torch.onnx", {"failed": {}})["failed"].items():
            where.setdefault(test, []).append(run)
            errors[test] = error
    return [f"| `{test}` | {'; '.join(runs)} | {_cell(errors[test])} |" for test, runs in sorted(where.items())]


def _names(tests: Sequence[str]) -> str:
    return ", ".join(f"`{test}`" for test in tests)


def _cell(error: str) -> str:
    return error[:160].replace("|", "\\|").replace("<", "\\<")
