"""Child processes by fork: one for each program, with a time limit."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import pickle
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


@dataclasses.dataclass(eq=False)
class Ended(Exception):
    """A child that ended without a result: "crash", "hang" or "error"."""

    outcome: str
    detail: str


class Child:
    """A fork of this process that computes `function()`."""

    def __init__(self, function: Callable[[], Any], seconds: float, tag: Any = None) -> None:
        self.tag, self.deadline = tag, time.monotonic() + seconds
        self._seconds = seconds
        self._written: list[bytes] = []
        handle, self._errors = tempfile.mkstemp(prefix="fuzz_", suffix=".err")
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            _compute(function, end, handle)
        os.close(end)
        os.close(handle)

    def read(self) -> bool:
        """Read the available output, and return whether the child has ended."""
        part = os.read(self.pipe, 1 << 20)
        self._written.append(part)
        return not part

    def result(self) -> Any:
        """Return the result of an ended child, or kill it; raise `Ended` without a result."""
        late = time.monotonic() >= self.deadline and (not self._written or self._written[-1] != b"")
        if late:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        errors = Path(self._errors).read_text("utf-8", "replace")
        Path(self._errors).unlink()
        if late:
            raise Ended("hang", f"it took longer than {self._seconds:g} seconds")
        if not b"".join(self._written):
            code = os.waitstatus_to_exitcode(status)
            name = signal.Signals(-code).name if code < 0 else f"status {code}"
            raise Ended("crash", f"{name}: {errors[-1500:]}")
        done, value = pickle.loads(b"".join(self._written))
        if not done:
            raise Ended("error", value)
        return value


def _compute(function: Callable[[], Any], end: int, errors: int) -> None:
    """Write the pickled result of a function, and end this process."""
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    faulthandler.enable(os.fdopen(errors, "w"))
    try:
        message = pickle.dumps((True, function()))
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        message = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    with os.fdopen(end, "wb") as pipe:
        pipe.write(message)
    os._exit(0)


def in_child(function: Callable[[], Any], seconds: float) -> Any:
    """Call a function in a child and return its result; raise `Ended` without one."""
    child = Child(function, seconds)
    while select.select([child.pipe], [], [], max(child.deadline - time.monotonic(), 0))[0]:
        if child.read():
            break
    return child.result()


def finished(children: list[Child], patience: float) -> Iterator[Child]:
    """Yield the children that have ended or are late, and remove them from the list."""
    ready = select.select([child.pipe for child in children], [], [], patience)[0]
    for child in [*children]:
        if (child.pipe in ready and child.read()) or time.monotonic() >= child.deadline:
            children.remove(child)
            yield child
