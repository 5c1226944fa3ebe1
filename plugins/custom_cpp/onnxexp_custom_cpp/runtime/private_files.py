"""Find files and folders that another user of the machine could have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def foreign(path: Path) -> str:
    """Return why another user could have written a file or folder; "" if none could.

    The path and each folder above it count, after links are followed. Only the user and root may own them, and no other may write
    to them. A folder above may be writable if its sticky bit keeps others from replacing what is in it, as in ``/tmp``.
    Windows protects a user's folders by access lists, which are not checked.

    Raises OSError where the path does not exist.
    """
    if os.name == "nt":
        return ""
    resolved = path.resolve(strict=True)
    for each in (resolved, *resolved.parents):
        status = each.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{each} belongs to another user"
        if status.st_mode & _others(status) and (each == resolved or not status.st_mode & stat.S_ISVTX):
            return f"others can write to {each}"
    return ""


def _others(status: os.stat_result) -> int:
    """Return the bits of others' write access.

    A group with the user's own number has no other member.
    """
    return stat.S_IWOTH if status.st_gid == status.st_uid else stat.S_IWOTH | stat.S_IWGRP
