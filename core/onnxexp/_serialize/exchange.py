"""Exchange two paths in one step, where the system can."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys

_AT_FDCWD = -100
_RENAME_EXCHANGE = _RENAME_SWAP = 2
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM}
"""The errors of a system or a file system without exchanges; EPERM where a container's filter forbids the system call."""


def exchange(first: str, second: str) -> bool:
    """Exchange two paths of one file system in one step.

    Returns False where the system cannot exchange them. Raises OSError where it can, but fails.
    """
    status = _exchange(os.fsencode(first), os.fsencode(second))
    if status is None:
        return False
    if status == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), first, None, second)


def _exchange(first: bytes, second: bytes) -> int | None:
    """Call the C library, and return None if it has no such function."""
    status: int | None = None
    with contextlib.suppress(AttributeError):
        if sys.platform == "linux":
            status = ctypes.CDLL(None, use_errno=True).renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
        elif sys.platform == "darwin":
            status = ctypes.CDLL(None, use_errno=True).renamex_np(first, second, _RENAME_SWAP)
    return status
