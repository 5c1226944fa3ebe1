"""Lock a folder while several of its files are replaced.

The lock is the name of a hidden folder. A writer renames a folder of its own to that name, which fails while another one has it,
on every file system and between machines. The folder of a dead writer is removed, see `hidden_folder`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from onnxexp._serialize.hidden_folder import hidden_folder, remove_if_dead

LOCK = ".onnxexp-exchange.tmp"
"""A name of a hidden folder, so that those who look for dead ones find it."""
_PATIENCE = 10.0
"""Seconds to wait. A writer has the lock for a few renames."""
_INTERVAL = 0.002


@contextlib.contextmanager
def publication_lock(parent: str) -> Iterator[bool]:
    """Lock a folder, or yield False where another writer does not release it in time.

    Windows cannot rename a folder with an open file in it. There the lock is not taken, and True is yielded.
    """
    if sys.platform == "win32":
        yield True
        return
    with hidden_folder(parent) as folder:
        Path(folder, "content").touch()  # a folder that is empty could be replaced
        lock = os.path.join(parent, LOCK)
        taken = _renamed(folder, lock)
        try:
            yield taken
        finally:
            if taken:
                os.rename(lock, folder)


def _renamed(folder: str, lock: str) -> bool:
    """Rename the folder as soon as the name is free, or return False after a timeout."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            os.rename(folder, lock)
            return True
        except OSError:
            if time.monotonic() > end:
                return False
        remove_if_dead(lock)
        time.sleep(_INTERVAL)
