"""What runs in a dask worker: a pool of cell servers, and the task of one cell."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import WorkerPlugin, get_worker

from onnxexp_sweep.versions import differences

NAME = "onnxexp-sweep"
"""The name of the worker plugin, and the topic of its events."""

_START = "import sys; sys.path[:] = filter(None, sys.path); from onnxexp_sweep.cell_server import main; main()"
"""Without the working directory on the path: no plugin and none of their imports may come from there."""

_TAIL = 2000


class EnvironmentChanged(RuntimeError):
    """A worker has other versions than the sweep began with, or lacks a package."""


class CellServer:
    """A process of `onnxexp_sweep.cell_server`, which has imported some modules.

    Raises EnvironmentChanged where it does not start.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *preload],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={"OMP_NUM_THREADS": "1", **os.environ},  # a worker without a nanny lacks the variable
        )  # fmt: skip
        started = self._answer()
        if started is None:
            text = self.errors()
            self.close()
            raise EnvironmentChanged(f"the process for cells does not start on {socket.gethostname()}: {text}")
        if "problem" in started:
            self.close()
            raise EnvironmentChanged(f"{started['problem']} on {socket.gethostname()}")
        self.versions: dict[str, str] = started["versions"]

    def run(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run a job; None if the server has ended."""
        stream = self._process.stdin
        if stream is None:
            return None
        try:
            stream.write(json.dumps(job, default=str).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            return None
        return self._answer()

    def errors(self) -> str:
        """Return the end of what the server has printed."""
        number = self._errors.fileno()
        end = os.fstat(number).st_size
        return os.pread(number, _TAIL, max(end - _TAIL, 0)).decode("utf-8", "replace").strip()  # the server shares the position

    def stop(self) -> None:
        """Have the server end, and its cell; another thread may wait for that cell."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def close(self) -> None:
        """End the server, and the cell that it runs."""
        self.stop()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> dict[str, Any] | None:
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        answer: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return answer


class CellServers(WorkerPlugin):
    """The cell servers of a worker, one for each of its threads that runs a cell."""

    name = NAME

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)

    def setup(self, worker: Any) -> None:
        """Start without servers; `run` starts one where none is idle."""
        self._lock = threading.Lock()
        self._idle: list[CellServer] = []
        self._busy: set[CellServer] = set()
        self._stopped = False

    def teardown(self, worker: Any) -> None:
        """End all servers, those with a cell too."""
        with self._lock:
            self._stopped = True
            for server in self._busy:
                server.stop()
            idle, self._idle = self._idle, []
        for server in idle:
            server.close()

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run a job in an idle server.

        Raises EnvironmentChanged.
        """
        text = ""
        for _ in range(2):  # a server that is killed is replaced once
            server = self._take()
            outcome = None
            try:
                _check(job["versions"], server.versions)
                outcome = server.run(job)
                text = server.errors()
            finally:
                self._put_back(server, usable=outcome is not None)
            if outcome is not None:
                return outcome
            if self._stopped:
                break
        return {"status": "crashed", "step": "start", "reason": f"the process that supervises the cell ended. {text}".strip()}

    def _take(self) -> CellServer:
        with self._lock:
            server = self._idle.pop() if self._idle else None
        server = server or CellServer(self._preload)
        with self._lock:
            self._busy.add(server)
        return server

    def _put_back(self, server: CellServer, *, usable: bool) -> None:
        with self._lock:
            self._busy.discard(server)
            if usable and not self._stopped:
                self._idle.append(server)
                return
        server.close()


def _check(expected: dict[str, str], present: dict[str, str]) -> None:
    if changed := differences(expected, present):
        raise EnvironmentChanged(
            f"the worker on {socket.gethostname()} has other versions than the sweep began with: {'; '.join(changed)}"
        )


def run_cell(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a cell on this worker: the dask task."""
    worker = get_worker()
    place = f"{socket.gethostname()} {worker.name}"
    worker.log_event(NAME, {"key": job["key"], "name": job["name"], "place": place})
    servers: Any = worker.plugins[NAME]
    return {**servers.run({**job, "memory": job["memory"] or _share(worker)}), "worker": place}


def _share(worker: Any) -> int | None:
    """Return a thread's share of the worker's memory limit; None if there is none."""
    limit = worker.memory_manager.memory_limit
    return int(limit / worker.state.nthreads) if limit else None
