"""Run tasks in worker processes with a time limit per sample.

The run replaces workers that die, and appends the results to a file.
"""

from __future__ import annotations

import dataclasses
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from .judging import Result
from .worker import Task, key

_TASKS_PER_WORKER = 150
"""The lifetime of a worker in tasks; torch's caches of traces keep growing."""


def read_results(path: Path) -> list[Result]:
    """Return the results in a file; incomplete lines are skipped."""
    if not path.exists():
        return []
    results = []
    for line in path.read_text("utf-8").splitlines():
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


class _Worker:
    """A worker process, and a thread that reads its output."""

    def __init__(self) -> None:
        self.tasks = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, task: Task) -> None:
        assert self._process.stdin is not None
        self.tasks += 1
        try:
            self._process.stdin.write(json.dumps(dataclasses.asdict(task)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process died; `receive` raises

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message.

        Raises TimeoutError at the limit, and EOFError if the process died.
        """
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            raise EOFError(f"the process died with status {self._process.wait()}")
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Runner:
    """Run tasks in `jobs` processes; write each result to `out` immediately."""

    def __init__(self, out: TextIO, jobs: int, limit: float) -> None:
        self._out, self._jobs, self._limit = out, jobs, limit
        self._lock = threading.Lock()
        self._left = 0

    def run(self, tasks: Sequence[Task]) -> None:
        self._left = len(tasks)
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        with ThreadPoolExecutor(self._jobs) as pool:
            for future in [pool.submit(self._work, waiting) for _ in range(self._jobs)]:
                future.result()

    def _work(self, waiting: queue.SimpleQueue[Task]) -> None:
        worker = _Worker()
        try:
            while not waiting.empty():
                worker = self._perform(worker, waiting.get_nowait())
        except queue.Empty:
            pass  # another thread took the last one
        finally:
            worker.end()

    def _perform(self, worker: _Worker, task: Task) -> _Worker:
        """Complete one task, with new workers if some die; return the last worker."""
        if worker.tasks >= _TASKS_PER_WORKER:
            worker.end()
            worker = _Worker()
        while True:
            begun: list[Any] | None = None
            worker.send(task)
            try:
                while True:
                    message = worker.receive(self._limit)
                    if "end" in message:
                        self._progress(task)
                        return worker
                    if "trouble" in message:
                        print(f"{task.op} {task.dtype}: {message['trouble']}", file=sys.stderr, flush=True)
                    elif "begin" in message:
                        begun = message["begin"]
                    elif "op" in message:
                        self._write(message)
                        task.done.append(key(*(message[name] for name in ("op", "dtype", "sample", "opset", "exporter"))))
                        begun = None
            except (TimeoutError, EOFError) as error:
                worker.end()
                worker = _Worker()
                if begun is None:
                    self._progress(task, str(error))
                    return worker
                reason = str(error) or f"it took longer than {self._limit:g} seconds"
                self._write(dataclasses.asdict(Result(*begun, outcome="crash", detail=reason)))
                task.done.append(key(*begun))

    def _write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def _progress(self, task: Task, trouble: str = "") -> None:
        with self._lock:
            self._left -= 1
            if trouble or self._left % 50 == 0:
                print(f"{self._left} to go after {task.op} {task.dtype} {trouble}".rstrip(), file=sys.stderr, flush=True)


def tasks_of(pairs: Iterable[tuple[str, str]], count: int, opsets: list[int], exporters: list[str], done: set[str]) -> list[Task]:
    """Return a task for each operator and dtype, with its existing results."""
    by_pair: dict[str, list[str]] = {}
    for existing in done:
        by_pair.setdefault("|".join(existing.split("|")[:2]), []).append(existing)
    return [Task(op, dtype, count, opsets, exporters, by_pair.get(f"{op}|{dtype}", [])) for op, dtype in pairs]
