"""Tasks over worker processes: a time limit for each sample, a new worker where one died, results appended to a file."""

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

__all__ = ["Runner", "read_results"]

_TASKS_PER_WORKER = 150
"""torch keeps what it has traced; a worker does not live for ever."""


def read_results(path: Path) -> list[Result]:
    """The results in a file; of a line that was cut off while it was written nothing is taken."""
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
    """A process, and a thread that reads what it says."""

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
            pass  # it died; `receive` tells

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message. Raises TimeoutError, or EOFError where the process is gone."""
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
    """Runs tasks in `jobs` processes; every result is written to `out` as soon as it is there."""

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
        """One task to its end, with as many workers as it takes; returns the living one."""
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
    """A task for each operator and dtype, with what is done of it."""
    by_pair: dict[str, list[str]] = {}
    for named in done:
        by_pair.setdefault("|".join(named.split("|")[:2]), []).append(named)
    return [Task(op, dtype, count, opsets, exporters, by_pair.get(f"{op}|{dtype}", [])) for op, dtype in pairs]
