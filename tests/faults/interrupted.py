"""Run a function in a child process that ends at one of its changes to files."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .fault import fork

KILL, FULL_DISK = "SIGKILL", "a full disk"
INTERRUPTS: dict[str, type[BaseException] | None] = {KILL: None, "Ctrl-C": KeyboardInterrupt, "MemoryError": MemoryError}
"""What ends the function: the process, or an exception."""
_NEED_SPACE = {"os.link", "os.mkdir", "os.rename", "os.symlink", "os.truncate"}
_CHANGES = _NEED_SPACE | {"os.chmod", "os.remove", "os.rmdir", "shutil.rmtree"}
"""Python's audit events before a change. `ctypes.dlsym` is raised just before the call of renameat2."""
_CALLS = {"copy_file_range", "fsync", "posix_fallocate", "sendfile", "tofile", "write"}
"""Functions of C that write, for which there is no audit event."""
_IN_MEMORY = (io.BytesIO, io.StringIO)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def interrupted(
    function: Callable[[], Any], step: int, how: str, ends_with: type[BaseException] | tuple[type[BaseException], ...] = ()
) -> bool:
    """Call a function in a forked child; return whether it was interrupted.

    Args:
        function: The function.
        step: The change before which it is interrupted, counted from 0; a write and a flush to the disk count, too.
        how: One of `INTERRUPTS`, or `FULL_DISK`, which counts only the changes that need space.
        ends_with: What the function may raise then, instead of the exception that interrupts it.

    Raises AssertionError where the child ends in another way.
    """
    child = fork()
    if child == 0:
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if how == FULL_DISK else (INTERRUPTS[how] or _Killed)()
        _run(function, _Changes(step, error, _NEED_SPACE if how == FULL_DISK else _CHANGES), ends_with or type(error))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (_FINISHED, _RAISED, -signal.SIGKILL), f"the child ended with {status}"
    return status != _FINISHED


_FINISHED, _RAISED, _OTHER = 0, 3, 4


class _Killed(BaseException):
    """Stands for the end of the process."""


@dataclasses.dataclass
class _Changes:
    """Count changes, and raise an exception at one of them."""

    step: int
    error: BaseException
    events: set[str]
    count: int = 0

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self.events or event == "ctypes.dlsym" or (event == "open" and (arguments[2] or 0) & _WRITES):
            self._change()

    def profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in _CALLS and not isinstance(getattr(called, "__self__", None), _IN_MEMORY):
            self._change()

    def _change(self) -> None:
        self.count += 1
        if self.count == self.step + 1:
            if isinstance(self.error, _Killed):
                os.kill(os.getpid(), signal.SIGKILL)
            raise self.error


def _run(
    function: Callable[[], Any], changes: _Changes, ends_with: type[BaseException] | tuple[type[BaseException], ...]
) -> None:
    status = _OTHER
    try:
        sys.addaudithook(changes.audit)
        sys.setprofile(changes.profile)
        function()
        sys.setprofile(None)
        status = _FINISHED if changes.count <= changes.step else _RAISED
    except ends_with:
        sys.setprofile(None)
        status = _RAISED if changes.count > changes.step else _OTHER
    finally:
        os._exit(status)
