"""Turn the signals that end a process into an exception, so that it cleans up."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP


class Terminated(KeyboardInterrupt):
    """Another process ends this one, which cleans up as after Ctrl-C.

    Attributes:
        status: The exit status.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.status = 128 + number


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Terminated` at the first SIGTERM or SIGHUP inside the `with`.

    Later signals are ignored. A signal with a handler, or one that is ignored as under nohup, is left alone. All signals are left
    alone in another thread than the main one, where Python sets no handlers. A child process that is forked inside the `with`
    ends at the signal.
    """
    owner = os.getpid()

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    main = threading.current_thread() is threading.main_thread()
    taken = [each for each in _SIGNALS if main and signal.getsignal(each) == signal.SIG_DFL]
    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
