"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from types import TracebackType

from onnxexp.errors import SerializeError

__all__ = ["NewFile", "checked_target", "explained"]

_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV, errno.EISDIR, errno.ENOENT}
_WORTH_RESERVING = 1 << 20


class NewFile:
    """A file being written in the folder of `path`; nobody sees it until `publish`, and nothing is left of it otherwise.

    Where the system can it has no name at all, so that even a killed process leaves nothing behind. Its permissions are
    those of the file that it is to replace, or what any new file gets.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        old = _status(path)
        self.replaces = old is not None
        self._temporary = ""
        self.descriptor = self._open()
        if old is not None:
            self._take_over(old)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
        if self._temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def reserve(self, size: int) -> None:
        """Allocate the file's blocks: a full disk shows before anything is written, and writing becomes faster.

        A little file is written at once, which takes less than this does.
        """
        if size < _WORTH_RESERVING or sys.platform in {"win32", "darwin"}:
            return
        try:
            os.posix_fallocate(self.descriptor, 0, size)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise

    def publish(self, path: str | None = None) -> None:
        """Give the file its name (`path`: another one in the same folder), in one step.

        What takes the place of another file is on the disk before it does, so that a power failure does not cost both.
        """
        target = path or self.path
        if self.replaces:
            os.fsync(self.descriptor)
        taken = self.replaces and target == self.path
        if not self._temporary and (taken or not self._linked(target)):
            self._temporary = _unused(self.path)
            if not self._linked(self._temporary):
                self._copy()
        self._close()
        if self._temporary:
            os.replace(self._temporary, target)
            self._temporary = ""

    def _linked(self, name: str) -> bool:
        """Give the nameless file a name; False where that is taken, or where a sandbox forbids it."""
        try:
            # `src_dir_fd`, which means nothing beside an absolute path, makes Python follow the link in /proc to the file.
            os.link(f"/proc/self/fd/{self.descriptor}", name, src_dir_fd=self.descriptor)
        except OSError:
            return False
        return True

    def _copy(self) -> None:
        """Write the nameless file once more, rather than fail."""
        with open(self._temporary, "xb") as named, open(self.descriptor, "rb", closefd=False) as nameless:
            nameless.seek(0)
            shutil.copyfileobj(nameless, named, 1 << 20)
            os.fchmod(named.fileno(), stat.S_IMODE(os.fstat(self.descriptor).st_mode))

    def _open(self) -> int:
        if _nameless():
            try:
                return os.open(os.path.dirname(self.path), os.O_TMPFILE | os.O_RDWR, 0o666)
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:
                    raise
        self._temporary = _unused(self.path)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        if sys.platform == "win32":
            flags |= os.O_BINARY
        return os.open(self._temporary, flags, 0o666)

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _take_over(self, old: os.stat_result) -> None:
        if sys.platform == "win32":
            return
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(self.descriptor, old.st_uid, old.st_gid)
        os.fchmod(self.descriptor, stat.S_IMODE(old.st_mode))


def checked_target(path: str | os.PathLike[str]) -> str:
    """The absolute path of the file to write: what a link leads to. Raises `SerializeError` where no file can be."""
    given = os.fsdecode(path)
    real = os.path.realpath(given) if os.path.islink(given) or os.pardir in given else os.path.abspath(given)
    folder = os.path.dirname(real)
    found = _status(real)
    if (found is not None and stat.S_ISDIR(found.st_mode)) or not os.path.basename(given):
        raise SerializeError(
            _cannot(given, "it is a folder", f"Give a file's name, such as {os.path.join(given, 'model.onnx')}.")
        )
    if found is not None:
        if not stat.S_ISREG(found.st_mode):
            raise SerializeError(_cannot(given, "it is not a regular file", "Open it yourself and give the file object."))
        if not os.access(real, os.W_OK):
            raise SerializeError(_cannot(given, "the file is read-only", "Change its permissions, or choose another name."))
    if not os.access(os.path.join(folder, ""), os.W_OK | os.X_OK):  # the separator at the end has it be a folder
        if not os.path.isdir(folder):
            problem = "is not a folder" if os.path.exists(folder) else "does not exist"
            raise SerializeError(_cannot(given, f"the folder {folder} {problem}", "Create it, or choose another place."))
        raise SerializeError(
            _cannot(given, f"no permission to create files in {folder}", "Change its permissions, or choose another place.")
        )
    return real


@functools.cache
def _nameless() -> bool:
    """Does the system know files without a name, and a way to give them one?"""
    return sys.platform == "linux" and os.path.exists("/proc/self/fd")


def _status(path: str) -> os.stat_result | None:
    """What the system says of the file, None where there is none (a loop of links is none)."""
    try:
        return os.stat(path)
    except OSError:
        return None


@contextlib.contextmanager
def explained(path: str, size: int) -> Iterator[None]:
    """Turn the system's errors while `size` bytes are written to `path` into `SerializeError`s that say what to do."""
    try:
        yield
    except OSError as error:
        raise SerializeError(_explain(error, path, size)) from error


def _explain(error: OSError, path: str, size: int) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        folder = os.path.dirname(path)
        free = shutil.disk_usage(folder).free
        quota = " within your quota" if error.errno == errno.EDQUOT else ""
        reason = f"no space left{quota}: it needs {_megabytes(size)}, and {folder} has {_megabytes(free)} free"
        return _cannot(path, reason, "Free some space, or choose another place.")
    if error.errno == errno.EFBIG:
        reason = f"a file of {_megabytes(size)} is larger than the file system or the limit of this process (ulimit -f) allows"
        return _cannot(path, reason, "Choose another place, or raise the limit.")
    return _cannot(path, error.strerror or str(error), "Choose another place, or give a file object.")


def _cannot(path: str, reason: str, cure: str) -> str:
    unharmed = " What was there before is unharmed." if os.path.isfile(path) else ""
    return f"cannot write {path}: {reason}. {cure}{unharmed}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def _unused(path: str) -> str:
    """A name that no other process picks; hidden, and next to `path` because renaming works only within a file system."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.{secrets.token_hex(8)}.tmp")
