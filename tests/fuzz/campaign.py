"""Judge many programs, each in a child process, and minimise what fails."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import gc
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

import torch

from .exporters import EXPORTERS, exported
from .generator import generate
from .judging import FAILURES, Result, judge
from .minimising import minimised, outcome_in_child
from .processes import Child, Ended, finished
from .program import FRONTENDS, Input, Program, Statement, load
from .report import read_results, text_of

_MINIMISED = 1
"""The number of programs of a refusal's cause that are minimised; failures are minimised always."""
_MINIMISING = 120.0


@dataclasses.dataclass(frozen=True)
class _Task:
    seed: int
    exporter: str
    result: Result | None = None
    """The failure that is to be minimised; None if the program is to be judged."""


def warm(frontends: Sequence[str] = FRONTENDS) -> None:
    """Import what an export needs, so that forked children have it."""
    torch.set_num_threads(1)
    for frontend in frontends:
        statement = Statement("v0 = F.avg_pool1d(x0[:, :2].relu(), 2).sum(1) + x0.shape[0]")
        axes = {"x0": {0: "n"}}
        program = Program(
            0, (Input("x0", (3, 4, 5), "float32", "normal", 0),), (statement,), ("v0",), axes=axes, frontend=frontend
        )
        exported("onnxexp", program, load(program)(), program.tensors())
    for module in ("onnxruntime", "onnx.reference", "torch.onnx"):
        __import__(module)
    gc.disable()  # a collection in a child would copy every page of this process


class Campaign:
    """A run over seeds; results go into a file as they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._seen: collections.Counter[str] = collections.Counter()
        self._waiting: collections.deque[_Task] = collections.deque()
        self._counts: collections.Counter[str] = collections.Counter()
        self._end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")

    def run(self, seeds: Iterable[int]) -> None:
        warm([self._options.frontend] if self._options.frontend else FRONTENDS)
        known = {(result.seed, result.exporter): result for result in read_results(self._options.out)}
        done = {key for key, result in known.items() if not any(redo in result.cause for redo in self._options.redo)}
        tasks, children, start = self._tasks(seeds, done), list[Child](), time.monotonic()
        with self._options.out.open("a", encoding="utf-8") as out:
            while True:
                while len(children) < self._options.jobs and (task := self._next(tasks)) is not None:
                    children.append(self._child(task))
                if not children:
                    break
                for child in finished(children, 1.0):
                    result = self._result(child)
                    out.write(text_of(result))
                    out.flush()
        taken = time.monotonic() - start
        total = sum(self._counts.values())
        print(f"{total} programs in {taken:.0f} s ({total / max(taken, 1):.1f} per second)", file=sys.stderr)

    def _tasks(self, seeds: Iterable[int], done: set[tuple[int, str]]) -> Iterator[_Task]:
        exporters = EXPORTERS if self._options.peers else ("onnxexp",)
        for seed in seeds:
            for exporter in exporters:
                if (seed, exporter) not in done:
                    yield _Task(seed, exporter)

    def _next(self, tasks: Iterator[_Task]) -> _Task | None:
        if self._waiting:
            return self._waiting.popleft()
        return next(tasks, None) if time.monotonic() < self._end else None

    def _child(self, task: _Task) -> Child:
        limit = self._options.limit
        return Child(lambda: self._perform(task), _MINIMISING if task.result else limit, task)

    def _perform(self, task: _Task) -> Result:
        program = generate(task.seed, self._options.frontend, self._options.opset)
        if task.result is None:
            return judge(program, task.exporter)
        if task.result.outcome in ("crash", "hang"):
            return minimised(program, task.result, lambda each: outcome_in_child(each, task.exporter, self._options.limit / 2))
        return minimised(program, task.result, lambda each: judge(each, task.exporter))

    def _result(self, child: Child) -> Result:
        """Return a child's result; a failure is minimised next."""
        task: _Task = child.tag
        try:
            result: Result = child.result()
        except Ended as ended:
            if task.result is not None:
                return task.result
            result = self._of_dead_child(task, ended)
        if task.result is None:
            self._counts[result.outcome] += 1
            self._seen[result.cause] += 1
            failed = result.outcome in FAILURES
            told = result.outcome in ("refused", "runtime", "warned") and self._seen[result.cause] <= _MINIMISED
            if task.exporter == "onnxexp" and (failed or told):
                self._waiting.append(dataclasses.replace(task, result=result))
        return result

    def _of_dead_child(self, task: _Task, ended: Ended) -> Result:
        program = generate(task.seed, self._options.frontend, self._options.opset)
        given = task.seed, task.exporter, program.frontend, program.opset
        return Result(*given, ended.outcome, ended.detail, statements=len(program.statements), source=program.reproduction)
