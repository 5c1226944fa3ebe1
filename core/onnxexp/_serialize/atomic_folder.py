"""Write a folder atomically, and keep the user's files in it.

**Complete or not at all.** The new folder is written inside a hidden folder beside its destination. Then the two are exchanged in
one step. A process that is killed leaves the whole old folder or the whole new one at the destination. The next export into the
same parent folder removes what the killed process left.

**In two steps elsewhere.** Windows and some file systems cannot exchange two folders. There the old folder is moved into the
hidden one, and the new one takes its place. A process that is killed between the two leaves nothing at the destination; the next
export into the same parent folder moves the old one back.

**The user's files.** ``onnxexp.json`` lists the files that an export wrote. A file that is not listed, or that was changed since,
is the user's. It is linked into the new folder, or copied where the file system has no hard links. An export that would write a
file of that name is refused. Files that appear in the old folder up to the exchange are moved to the new one after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from onnxexp._errors import OnnxExporterError, OptionError, SerializeError
from onnxexp._serialize.atomic_file import copy_permissions
from onnxexp._serialize.file_list import MANIFEST, listed_files, users_entries, write_manifest
from onnxexp._serialize.hidden_folder import hidden_folder

_SUFFIX = ".folder.tmp"
_NEW = "new"
_SET_ASIDE = "taken-"
"""The start of the name of a folder with the old export, where that is replaced in two steps."""
_REPLACED_ERRORS = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT}
"""The errors of a step where another export published its folder just before."""
_TRIES = 100


class OutputFolder:
    """A folder to write as a whole: the old one stays until the new one is complete.

    Files of the user stay in it. These are the files that no export wrote, or that were changed since.
    """

    MANIFEST: ClassVar[str] = MANIFEST
    """The name of the file in the folder that describes it, and lists the files that the export wrote."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._given = os.fsdecode(path)

    def check(self, names: Collection[str] = ()) -> str:
        """Check that the folder can be written, and return its path.

        The path is absolute, and without links.

        Args:
            names: Files that will be written, as far as they are known.

        Raises:
            OptionError: The path is no folder, is the working directory, has files but was not written here, or a file of the
                user has one of the names.
            SerializeError: The system refuses to write there.
        """
        given = self._given
        if "\0" in given:
            raise OptionError(f"{given!r} is no path: it has a NUL character; give a path without one")
        with _system_errors_with_fix(given):
            folder = os.path.realpath(given)
            parent = os.path.dirname(folder)
            if _is_no_folder(folder):
                raise OptionError(f"{given} is a file: give a folder")
            if not os.path.isdir(parent):
                raise OptionError(f"the folder {parent} does not exist: create it, or choose another place")
            _check_writable(parent, given)
            if os.path.isdir(folder):
                _retry_if_replaced(folder, lambda: _check_replaceable(folder, given, names))
        return folder

    @contextlib.contextmanager
    def replaced(self, description: Mapping[str, Any]) -> Iterator[str]:
        """Create a new folder to write into, in place of the old one.

        The exchange is at the end of the `with`, unless that raises.

        Args:
            description: The contents of the manifest beside the list of files; JSON.

        Raises:
            OptionError: As `check`, or a file of the user is in the place of a new one.
            SerializeError: The system refuses to write; the old folder is unharmed.
        """
        destination = self.check()
        parent, name = os.path.split(destination)
        with _system_errors_with_fix(destination), hidden_folder(parent, _SUFFIX, _recover) as hidden:
            place = _create_stage(hidden, name)
            yield place
            write_manifest(place, description)
            _publish(place, destination, hidden)

    def written_files(self) -> list[str]:
        """Return the names of the files that the last export wrote into the folder."""
        return sorted(name for name, _ in listed_files(self._given))


def _is_no_folder(path: str) -> bool:
    """Return whether something else than a folder is at a path.

    One call decides: between two, another export may take the old folder away.
    """
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _check_writable(folder: str, given: str) -> None:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise _write_error(given, f"no permission to write in {folder}", "Change its permissions, or choose another place.")


def _check_replaceable(folder: str, given: str, names: Collection[str]) -> None:
    """Raise OptionError for a folder that an export must not replace."""
    _check_writable(folder, given)
    if os.path.ismount(folder):
        raise OptionError(
            f"{given} is the root of a file system, which cannot be replaced: give a folder inside it, "
            f"such as {os.path.join(given, 'model')}"
        )
    with contextlib.suppress(FileNotFoundError):  # the working directory was removed
        if Path.cwd().is_relative_to(folder):
            raise OptionError(
                f"{given} is the working directory, or contains it, and an export replaces the whole folder: "
                "change to another directory, or choose another place"
            )
    if os.listdir(folder) and not os.path.isfile(os.path.join(folder, MANIFEST)):
        raise OptionError(f"{given} has files of its own, and is no earlier export (it has no {MANIFEST}): give a new folder")
    _check_names(folder, names)


def _check_names(folder: str, names: Collection[str]) -> None:
    """Raise OptionError if a file of the user has one of the names."""
    users = users_entries(folder)
    if MANIFEST in users:
        raise OptionError(
            f"{folder} has an {MANIFEST} without a list of the files that the export wrote, so that they cannot be told from "
            "yours: move or delete the folder, or give a new one"
        )
    conflicting = sorted(users & {*names})
    if conflicting:
        raise OptionError(
            f"{folder} has files that the export would replace, and that are yours, or were changed since the last export: "
            f"{', '.join(conflicting)}; to fix this, move or delete them, or give a new folder"
        )


def _create_stage(hidden: str, name: str) -> str:
    """Create the folder to write into, with its inode as the name of its parent.

    By this name, `_recover` distinguishes the new folder from the old one after an exchange.
    """
    temporary = os.path.join(hidden, _NEW)
    os.makedirs(os.path.join(temporary, name))
    stage = os.path.join(hidden, str(os.stat(os.path.join(temporary, name)).st_ino))
    os.rename(temporary, stage)
    return os.path.join(stage, name)


def _publish(place: str, destination: str, hidden: str) -> None:
    """Move a complete folder to its destination, with the user's files there."""
    names = os.listdir(place)
    for attempt in _tries():
        try:
            if not os.path.lexists(destination):
                os.rename(place, destination)
                return
            _retry_if_replaced(destination, lambda: _link_users_files(destination, place, names))
            if not exchange(place, destination):
                set_aside = tempfile.mkdtemp(prefix=_SET_ASIDE, dir=hidden)
                os.rename(destination, os.path.join(set_aside, os.path.basename(destination)))
                os.rename(place, destination)
            return
        except OSError as error:
            if error.errno not in _REPLACED_ERRORS or attempt + 1 == _TRIES:
                raise


def _retry_if_replaced(folder: str, function: Callable[[], None]) -> None:
    """Call a function, and again if another export replaced the folder meanwhile."""
    for attempt in _tries():
        with _same_folder(folder) as same:
            try:
                function()
            except (OSError, OnnxExporterError):
                if same() or attempt + 1 == _TRIES:
                    raise
            else:
                if same():
                    return


def _tries() -> Iterator[int]:
    """Yield the numbers of tries, with a pause before each but the first."""
    for attempt in range(_TRIES):
        time.sleep(min(attempt, 10) / 1000)
        yield attempt


@contextlib.contextmanager
def _same_folder(path: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that checks whether the folder at the path is still the same.

    The folder is open meanwhile, so that a new folder cannot get its inode. Windows does not use an inode again.
    """
    opened, before = None, None
    with contextlib.suppress(FileNotFoundError):  # between the two steps of another export
        opened = None if sys.platform == "win32" else os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        before = os.stat(path if opened is None else opened)

    def same() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return before is not None and os.path.samestat(before, os.stat(path))
        return False

    try:
        yield same
    finally:
        if opened is not None:
            os.close(opened)


def _link_users_files(old: str, new: str, names: Collection[str]) -> None:
    """Link the user's files of an old folder into the new one.

    The export's own files get the permissions of their predecessors.
    """
    for name in {*os.listdir(new)} - {*names}:  # links of an earlier try
        path = os.path.join(new, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    _check_replaceable(old, old, names)
    users = users_entries(old)
    for name in names:
        _flush(os.path.join(new, name))
    for name in {*names} - users:
        with contextlib.suppress(FileNotFoundError):
            copy_permissions(os.path.join(new, name), os.stat(os.path.join(old, name)))
    ours = {*os.listdir(old)} - users
    shutil.copytree(
        old, new, True, lambda folder, _: ours if folder == old else (), copy_function=_link_or_copy, dirs_exist_ok=True
    )
    copy_permissions(new, os.stat(old))


def _link_or_copy(source: str, target: str) -> None:
    """Create a hard link, or a copy where the system allows no link."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        return  # the user removed it
    except FileExistsError as error:
        raise SerializeError(
            f"cannot write {os.path.basename(target)}: on this file system it is the same name as your {source}. "
            "Move that file, or give a new folder."
        ) from error
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise SerializeError(
                f"cannot replace the folder of {source}: the file is on another file system, which is mounted there. "
                "Unmount it, or give a new folder."
            ) from error
        shutil.copy2(source, target)


def _flush(path: str) -> None:
    """Write a file to the disk, so that a power failure does not cost both folders."""
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "r+b") as file:
            os.fsync(file.fileno())


def _recover(hidden: str) -> None:
    """Move the user's files out of a hidden folder before it is removed."""
    with os.scandir(hidden) as stages:
        found = [stage for stage in stages if stage.is_dir(follow_symlinks=False)]
    for stage in found:
        for name in os.listdir(stage.path):
            folder, destination = os.path.join(stage.path, name), os.path.join(os.path.dirname(hidden), name)
            unpublished = stage.name in (_NEW, str(os.stat(folder).st_ino))
            if stage.name.startswith(_SET_ASIDE) and _put_back(folder, destination):
                continue
            if not unpublished and os.path.isdir(destination):
                _move_newer_files(folder, destination)


def _put_back(old: str, destination: str) -> bool:
    """Move the old folder back to a free destination, and return whether it did."""
    if os.path.lexists(destination):
        return False
    try:
        os.rename(old, destination)
    except OSError as error:
        if error.errno not in _REPLACED_ERRORS:
            raise
        return False
    return True


def _move_newer_files(old: str, new: str) -> None:
    """Move the user's files that the new folder lacks, or has in an older state."""
    _retry_if_replaced(new, lambda: _move_each(old, new))  # another export may replace it meanwhile


def _move_each(old: str, new: str) -> None:
    users, others = users_entries(old), users_entries(new)
    for path in _files_below(old, users):
        relative = os.path.relpath(path, old)
        target = os.path.join(new, relative)
        if os.path.lexists(target):
            if os.lstat(path).st_mtime_ns <= os.lstat(target).st_mtime_ns:
                continue
            while os.path.lexists(target) and relative not in others and os.path.dirname(relative) == "":
                target += ".yours"  # the export wrote a file of that name
        if os.path.dirname(relative):
            os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(path, target)


def _files_below(folder: str, names: Collection[str]) -> Iterator[str]:
    """Generate the paths of all files below some entries of a folder."""
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _files_below(path, os.listdir(path))
        else:
            yield path


@contextlib.contextmanager
def _system_errors_with_fix(path: str) -> Iterator[None]:
    """Convert the system's errors inside the `with` to SerializeErrors with a fix."""
    try:
        yield
    except (OSError, RecursionError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number in {errno.ENOSPC, errno.EDQUOT}:
            fix = "Free some space, or choose another place."
        elif number in {errno.EXDEV, errno.EBUSY}:
            fix = "A file system is mounted there: give a new folder inside it."
        else:
            fix = "Choose another place."
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _write_error(path, reason, fix) from error


def _write_error(path: str, reason: str, fix: str) -> SerializeError:
    unharmed = " What was there before is unharmed." if os.path.isdir(path) else ""
    return SerializeError(f"cannot write the folder {path}: {reason}. {fix}{unharmed}")


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
