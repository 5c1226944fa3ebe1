"""Hidden folders beside a destination, for files that are not complete yet.

A folder is locked while its process writes. The lock ends with the process, however that ends. So the next writer in the same
place finds the folders of dead processes and removes them, and never those of live ones.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator

_PREFIX = ".onnxexp-"


@contextlib.contextmanager
def hidden_folder(parent: str, suffix: str = ".tmp", recover: Callable[[str], None] = lambda folder: None) -> Iterator[str]:
    """Create a locked folder in `parent`, and remove it with its contents at the end.

    Folders of the same suffix that dead processes of the same user left in `parent` are removed first.

    Args:
        parent: The folder to create it in.
        suffix: The end of its name.
        recover: Called before a folder is removed, to move files out of it that must not be lost. The folder stays if it raises.
    """
    _remove_dead(parent, suffix, recover)
    folder, lock = _create(parent, suffix)
    try:
        yield folder
    finally:
        _remove(folder, lock, recover)


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Create a locked folder for temporary files, and remove it at the end.

    Unlike `tempfile.TemporaryDirectory`, it removes the folders of dead processes first, since a model may take many gigabytes.
    """
    with hidden_folder(tempfile.gettempdir()) as folder:
        yield folder


def _create(parent: str, suffix: str) -> tuple[str, int]:
    while True:
        folder = tempfile.mkdtemp(suffix, _PREFIX, parent)
        try:
            lock = _lock(folder, wait=True)
        except OSError:  # such as too many open files
            os.rmdir(folder)
            raise
        if lock is not None and os.path.isdir(folder):
            return folder, lock
        if lock is not None:
            os.close(lock)  # another writer took the folder for a dead one before it was locked, and removed it


def _remove_dead(parent: str, suffix: str, recover: Callable[[str], None]) -> None:
    name = re.compile(re.escape(_PREFIX) + r"\w{8}" + re.escape(suffix))  # as `tempfile.mkdtemp` forms it
    try:
        with os.scandir(parent or os.curdir) as entries:
            found = [each.path for each in entries if name.fullmatch(each.name) and each.is_dir(follow_symlinks=False)]
    except PermissionError:  # a folder that may be written, but not listed
        return
    for folder in found:
        remove_if_dead(folder, recover)


def remove_if_dead(folder: str, recover: Callable[[str], None] = lambda folder: None) -> None:
    """Remove a hidden folder, unless its process is alive."""
    lock = _lock(folder, wait=False)
    if lock is not None:
        with contextlib.suppress(OSError):  # what cannot be recovered stays
            _remove(folder, lock, recover)


def _remove(folder: str, lock: int, recover: Callable[[str], None]) -> None:
    closed = False
    try:
        recover(folder)
        if sys.platform == "win32":
            os.close(lock)  # an open file cannot be removed there
            closed = True
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        if not closed:
            os.close(lock)


if sys.platform == "win32":

    def _lock(folder: str, wait: bool) -> int | None:
        """Open a file in the folder, which cannot be removed while the file is open.

        Returns None where a live process has the file open.
        """
        path = os.path.join(folder, "lock")
        try:
            if not wait:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            return os.open(path, os.O_CREAT | os.O_RDWR)
        except OSError:
            return None

else:
    import fcntl

    def _lock(folder: str, wait: bool) -> int | None:
        """Lock a folder of this user, and return the open descriptor.

        Returns None where another process has the lock, or locking fails. Where the file system has no locks, a new folder counts
        as locked and an old one stays. Raises OSError where a new folder (`wait`) exists and cannot be opened.
        """
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            if wait and not isinstance(error, FileNotFoundError):
                raise
            return None
        try:
            if os.fstat(opened).st_uid != os.geteuid():
                raise PermissionError
            fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not wait and not os.path.samestat(os.fstat(opened), os.lstat(folder)):
                raise FileNotFoundError  # it was removed meanwhile, and another has its name
        except OSError:
            if not wait:
                os.close(opened)
                return None
        return opened
