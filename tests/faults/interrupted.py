"""Run a function in a child process that ends at one of its changes to the file system."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["INTERRUPTS", "KILL", "interrupted"]

KILL = "SIGKILL"
INTERRUPTS: dict[str, type[BaseException] | None] = {KILL: None, "Ctrl-C": KeyboardInterrupt, "MemoryError": MemoryError}
"""What ends the function: the process, or an exception."""
_CHANGES = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate", "shutil.rmtree"}
"""Python's audit events before a change. `ctypes.dlsym` is raised just before the call of renameat2."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def interrupted(function: Callable[[], Any], step: int, how: str) -> bool:
    """Call a function in a forked child, interrupt it before its change number `step`; return whether it was interrupted.

    Raises AssertionError where the child ends in another way.
    """
    child = os.fork()
    if child == 0:
        _run(function, step, INTERRUPTS[how])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (_FINISHED, _RAISED, -signal.SIGKILL), f"the child ended with {status}"
    return status != _FINISHED


_FINISHED, _RAISED, _OTHER = 0, 3, 4


def _run(function: Callable[[], Any], step: int, error: type[BaseException] | None) -> None:
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in _CHANGES and event != "ctypes.dlsym" and not (event == "open" and (arguments[2] or 0) & _WRITES):
            return
        count += 1
        if count == step + 1:
            if error is None:
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                raise error

    try:
        sys.addaudithook(hook)
        function()
    except BaseException as caught:  # noqa: BLE001 - the child ends here
        os._exit(_RAISED if error is not None and isinstance(caught, error) else _OTHER)
    os._exit(_FINISHED if count <= step else _RAISED)
