"""Run a command whose standard streams are closed or cannot be written."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def open_closed_streams() -> None:
    """Connect each closed standard stream to the null device.

    Otherwise the next file that is opened gets the free descriptor, and the output of a library lands in that file.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free one
        if descriptor > 2:
            os.close(descriptor)
            break
    for name in ("stdout", "stderr"):
        if vars(sys)[name] is None:  # as Python leaves it if the descriptor was closed
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process


def discard(stream: TextIO) -> None:
    """Connect a stream that failed to the null device.

    Otherwise the stream fails again at its next flush, and Python flushes it once more at the end.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def complain(text: str) -> None:
    """Print a message to standard error.

    If the message cannot be written, the exit status remains.
    """
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)
