"""The parts of a row: each runs in the row's environment and records its results."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .installing import Installed

Part = Callable[[Installed, int], dict[str, Any]]
"""(environment, processes) -> the figures, or "problem" and the reason that there are none."""


def run(environment: Installed, part: str, jobs: int) -> dict[str, Any]:
    """Run a part; its output goes into the folder of the environment."""
    return PARTS[part](environment, jobs)


def run_failed(environment: Installed, figures: dict[str, Any]) -> dict[str, Any]:
    """Repeat the failed tests of this environment, and return the updated figures."""
    if not figures["failures"]:  # pytest may know others by ids that no longer exist, and would run all tests
        return figures
    return with_mended(figures, _pytest(environment, "tests again", *_FAILED), environment.commit)


def counts(report: str) -> dict[str, Any]:
    """Read pytest's report (JUnit's XML): numbers, failed tests, reasons of skips."""
    found: Counter[str] = Counter()
    failed, skips = [], Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        outcome = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        kind = "passed" if outcome is None else outcome.tag
        if outcome is not None and outcome.tag != "skipped":
            kind = "failed"
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif outcome is not None and outcome.get("type") == "pytest.xfail":
            kind = "xfailed"
        elif outcome is not None:
            skips[outcome.get("message", "")] += 1
        found[kind] += 1
    numbers = {kind: found[kind] for kind in ("passed", "failed", "skipped", "xfailed")}
    return {**numbers, "failures": sorted(failed), "skips": dict(sorted(skips.items()))}


def _tests(environment: Installed, jobs: int) -> dict[str, Any]:
    figures = _pytest(environment, "tests", "-n", str(jobs))
    return with_repeated(figures, _pytest(environment, "tests again", *_FAILED)) if figures.get("failed") else figures


def with_repeated(figures: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """Add a run of the failed tests alone.

    Tests that pass in that run lacked time or memory beside other tests.
    """
    if "problem" in again or any(name.startswith("::") for name in figures["failures"]):  # "::FILE" failed before its tests
        return figures
    return _added(figures, again) | {"passed_alone": _passing(figures, again)}


def with_mended(figures: dict[str, Any], again: dict[str, Any], commit: str) -> dict[str, Any]:
    """Add a run of the failed tests with a later commit."""
    if "problem" in again:
        return figures
    mended = dict.fromkeys(_passing(figures, again), commit)
    return _added(figures, again) | {"mended": figures.get("mended", {}) | mended}


def _passing(figures: dict[str, Any], again: dict[str, Any]) -> list[str]:
    return sorted({*figures["failures"]} - {*again["failures"]})


def _added(figures: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    numbers = {kind: figures[kind] + again[kind] for kind in ("passed", "skipped", "xfailed")}
    skips = Counter(figures["skips"]) + Counter(again["skips"])
    return figures | numbers | {"skips": dict(sorted(skips.items())), "failed": again["failed"], "failures": again["failures"]}


_FAILED = ("--last-failed", "--last-failed-no-failures", "none")


def _pytest(environment: Installed, name: str, *options: str) -> dict[str, Any]:
    report = environment.folder / f"{name}.xml"
    report.unlink(missing_ok=True)
    cache = environment.folder / "pytest_cache"  # the sources are replaced by each run
    done = _python(
        environment,
        name,
        "-m",
        "pytest",
        "-q",
        "--continue-on-collection-errors",
        f"--junitxml={report}",
        "-o",
        f"cache_dir={cache}",
        *options,
    )
    if not report.exists():
        return {"problem": f"pytest ended with {done.returncode} before its report: {_last_line(done)}"}
    return counts(report.read_text("utf-8"))


def _demo(environment: Installed, jobs: int) -> dict[str, Any]:
    done = _python(environment, "demo", "-m", "examples.demo", str(environment.folder / "demo.onnx"))
    return {"problem": _last_line(done)} if done.returncode else {}


def _measured(subject: str) -> Part:
    def measure(environment: Installed, jobs: int) -> dict[str, Any]:
        done = _python(environment, subject, "-m", "tests.compat.measuring", subject, "--jobs", str(jobs))
        if done.returncode:
            return {"problem": _last_line(done)}
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures

    return measure


def _python(environment: Installed, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the sources, and save its output as NAME.log."""
    command = [str(environment.python), *words]
    done = subprocess.run(
        command, cwd=environment.sources, env=environment.variables, capture_output=True, text=True, check=False
    )
    (environment.folder / f"{name}.log").write_text(f"{done.stdout}\n{done.stderr}", "utf-8")
    return done


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:300] if lines else f"it ended with {done.returncode}"


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "versions": _measured("versions"),
        "demo": _demo,
        "conformance": _measured("conformance"),
        "bench": _measured("bench"),
        "tests": _tests,
    }
)
"""In the order in which they run: the tests take longest."""
