"""Measure the growth of a process's peak resident memory during a call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def growth(function: Callable[[], Result]) -> tuple[Result, int]:
    """Return a function's result, and the growth of the peak memory in bytes.

    On Linux the kernel's high-water mark is reset first. Elsewhere the mark counts from the start of the process, which hides
    memory that was used and freed before.
    """
    gc.collect()
    _release()
    reset = _reset_peak()
    before = _status("VmRSS") if reset else _peak()
    result = function()
    return result, (_status("VmHWM") if reset else _peak()) - before


def _reset_peak() -> bool:
    try:
        _CLEAR.write_text("5")  # see proc_pid_clear_refs(5): the peak becomes the present size
    except OSError:
        return False
    return True


def _status(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key + ":"))
    return int(line.split()[1]) * 1024


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _release() -> None:
    """Return malloc's free memory to the system.

    An export that reuses it would appear to need less.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
