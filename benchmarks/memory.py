"""Measure the growth of a process's peak resident memory during a call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
import sys
import threading
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


def anonymous_growth(function: Callable[[], Result]) -> tuple[Result, int]:
    """Return a function's result, and the growth of the peak anonymous memory.

    The growth is in bytes, and measured on Linux only. Anonymous memory excludes the pages of mapped files, which the system may
    drop at any time. The kernel has no high-water mark for it, so a thread reads it every 5 ms.
    """
    before, done = _status("RssAnon"), threading.Event()
    peak = before

    def sample() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, _status("RssAnon"))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        result = function()
    finally:
        done.set()
        sampler.join()
    return result, max(peak, _status("RssAnon")) - before


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

    An export that reuses this memory would appear to need less.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
