"""The parts of a row: what is run in its environment, and what is recorded of it."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .installing import Installed

__all__ = ["PARTS", "counts", "run", "with_repeated"]

Part = Callable[[Installed, int], dict[str, Any]]
"""(environment, processes) -> the figures, or "problem" and the reason that there are none."""


def run(environment: Installed, part: str, jobs: int) -> dict[str, Any]:
    """Run a part; its output goes into the folder of the environment."""
    return PARTS[part](environment, jobs)


def counts(report: str) -> dict[str, Any]:
    """Read pytest's report (JUnit's XML): the numbers, the failed tests, the reasons of the skipped ones."""
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
    return with_repeated(figures, _pytest(environment, "tests again", "--last-failed")) if figures.get("failed") else figures


def with_repeated(figures: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """Add the run of the failed tests alone: those that pass then had no time, or too little memory, beside others."""
    if "problem" in again:
        return figures
    passed_alone = sorted({*figures["failures"]} - {*again["failures"]})
    return figures | {
        "passed": figures["passed"] + len(passed_alone),
        "failed": figures["failed"] - len(passed_alone),
        "failures": again["failures"],
        "passed_alone": passed_alone,
    }


def _pytest(environment: Installed, name: str, *options: str) -> dict[str, Any]:
    report = environment.folder / f"{name}.xml"
    report.unlink(missing_ok=True)
    done = _python(environment, name, "-m", "pytest", "-q", f"--junitxml={report}", *options)
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
