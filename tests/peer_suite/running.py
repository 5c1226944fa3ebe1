"""Run each test in a process forked from one that has only imported the tests."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.fuzz.processes import Child, Ended, finished

from . import exporters

_SECONDS = 600
"""The time of a test; the longest takes a minute on an idle core."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Tests of one module of the suite, with one opset and one way of capturing.

    Attributes:
        opset: None leaves each test its own.
        script: Run the tests that script their model, and script those of the others that can be.
    """

    name: str
    module: str
    opset: int | None = None
    script: bool = False

    @property
    def capture(self) -> str:
        return "auto" if self.opset is None else "trace"


_MAIN = "test_pytorch_onnx_onnxruntime"
RUNS = [
    *(Run(f"traced, opset {opset}", _MAIN, opset) for opset in (9, 13, 17)),
    Run("scripted, opset 17", _MAIN, 17, script=True),
    Run("custom operators", "test_custom_ops"),
    Run("autograd functions", "test_autograd_funs"),
    Run("onnxscript", "test_onnxscript_runtime"),
    Run("quantized models", "test_models_quantized_onnxruntime"),
    Run("quantized models, scripted", "test_models_quantized_onnxruntime", script=True),
]


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a test: "passed", "failed" with an error, "skipped" with a reason."""

    outcome: str
    detail: str = ""


def results(run: Run, exporter: str, jobs: int, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Result]]:
    """Yield the name and the result of each test of a run, as it ends."""
    waiting = [case for case in _cases(run) if is_wanted(case._testMethodName)][::-1]
    children: list[Child] = []
    while waiting or children:
        while waiting and len(children) < jobs:
            children.append(_started(waiting.pop(), run, exporter))
        for child in finished(children, patience=1):
            try:
                yield child.tag, child.result()
            except Ended as error:
                yield child.tag, Result("failed", f"{error.outcome}: {_line(error.detail)}")


def _cases(run: Run) -> list[Any]:
    """Return the tests of a run, as instances."""
    module = importlib.import_module(run.module)
    wanted = {"opset_version": run.opset, "keep_initializers_as_inputs": False} if run.opset else {}
    classes = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, unittest.TestCase)
        and all(getattr(each, name) == value for name, value in wanted.items())
        and getattr(each, "is_script", False) == run.script
    ]
    return [each(name) for each in classes for name in unittest.TestLoader().getTestCaseNames(each)]


def _started(case: Any, run: Run, exporter: str) -> Child:
    return Child(lambda: _result(case, run, exporter), _SECONDS, case._testMethodName)


def _result(case: Any, run: Run, exporter: str) -> Result:
    """Run one test in this process, which ends after it."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    exporters.EXPORTERS[exporter](run.capture)
    exporters.accept_right_exports(sys.modules["pytorch_test_common"].ExportTestCase)
    outcome = _Outcome()
    case.run(outcome)
    if outcome.problem is not None:
        return Result("failed", _line(f"{type(outcome.problem).__name__}: {outcome.problem}"))
    if outcome.skipped:
        return Result("skipped", _line(outcome.skipped[0][1]))
    return Result("passed") if exporters.has_exported() else Result("skipped", "nothing is exported")


class _Outcome(unittest.TestResult):
    """The first exception of a test, instead of its traceback."""

    problem: BaseException | None = None

    def addError(self, test: Any, err: Any) -> None:
        self.problem = self.problem or err[1]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)


def _line(text: str) -> str:
    text = " ".join(text.split("To execute this test, run the following", maxsplit=1)[0].split())
    text = re.sub(r'File "[^"]*/', 'File "', text)  # the page names no folder of the machine that made it
    return text if len(text) <= 400 else f"{text[:397]}..."
