"""Direct I/O: read and write large files past the system's cache, on Linux.

A write through the cache finds a free page for each page first, and then copies the page. In this way, 4.3 GB of zeros took 6 to
8 s, and 1.7 s past the cache (Linux 6.18, ext4, a virtual machine). Smaller files are left to the cache, which writes them to the
disk later.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import mmap
import os
import re
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np

if sys.platform != "win32":
    import fcntl

_BLOCK = 16 << 20
"""Bytes of a block; a multiple of what every file system needs."""

_DIRTY_RATIO = 0.2
"""Linux stops a program until the disk has caught up when unwritten pages fill this share of memory (default vm.dirty_ratio)."""


def exceeds_cache(size: int) -> bool:
    """Return whether a file is so large that the cache would not speed up writing it.

    Such a file is written at the disk's pace in any case. The result is always False on other systems than Linux.
    """
    try:
        table = Path("/proc/meminfo").read_text()
    except OSError:
        return False
    available = re.search(r"^MemAvailable: +(\d+) kB", table, re.MULTILINE)
    return available is not None and size > _DIRTY_RATIO * 1024 * int(available[1])


def blocks(pieces: Generator[memoryview], count: int) -> Generator[memoryview]:
    """Copy pieces of any size into blocks of 16 MiB.

    Each block begins with a page of memory, and the last one may be smaller. A block is valid until `count` - 1 others have been
    generated.
    """
    memory = itertools.cycle([np.frombuffer(mmap.mmap(-1, _BLOCK), np.uint8) for _ in range(count)])
    block, used = next(memory), 0
    with contextlib.closing(pieces):
        for piece in pieces:
            while piece:
                copied = min(len(piece), _BLOCK - used)
                block[used : used + copied] = piece[:copied]
                piece, used = piece[copied:], used + copied
                if used == _BLOCK:
                    yield block.data
                    block, used = next(memory), 0
    yield block[:used].data


@contextlib.contextmanager
def past_cache(file: io.BufferedWriter) -> Iterator[_DirectFile | io.BufferedWriter]:
    """Yield a file that writes blocks from the beginning of `file` on, past the cache.

    The blocks go through the cache where the system or the file system has no other way.
    """
    file.flush()
    try:
        yield _DirectFile(file) if _bypass_cache(file, True) else file
    finally:
        _bypass_cache(file, False)


class _DirectFile:
    """A file that is open with O_DIRECT."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file

    def write(self, data: memoryview, /) -> int:
        """Write some of the bytes, and return their number."""
        try:
            return os.write(self._file.fileno(), data)
        except OSError as error:
            # The size of the last block is no multiple of the disk's block size, or the disk has larger blocks.
            if error.errno != errno.EINVAL or not _bypass_cache(self._file, False):
                raise
            return os.write(self._file.fileno(), data)


def _bypass_cache(file: io.BufferedWriter, on: bool) -> bool:
    """Set or clear the flag O_DIRECT.

    Returns False where the system or the file system lacks the flag.
    """
    if sys.platform != "linux":
        return False
    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    try:
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT)
    except OSError:
        return False
    return True


class DirectReader:
    """A reader of ranges of files past the cache, into memory that is used again."""

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    def read(self, path: str, inode: int, offset: int, size: int) -> memoryview | None:
        """Read a range that begins with a page of the file.

        The memory returned may be longer. Returns None where the path is another file by now, or where the file has become
        shorter or cannot be read past the cache.
        """
        if sys.platform != "linux":
            return None
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                memory = self._memory(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
                if os.fstat(descriptor).st_ino == inode and _fill(memory, descriptor, offset) >= size:
                    return memory
            finally:
                os.close(descriptor)
        return None

    def reuse(self, memory: memoryview) -> None:
        """Release the memory for another range."""
        self._free.append(memory)

    def _memory(self, size: int) -> memoryview:
        """Return the smallest free memory that is large enough, or new memory."""
        fitting = [index for index, memory in enumerate(self._free) if len(memory) >= size]
        if not fitting:
            return memoryview(mmap.mmap(-1, size))
        return self._free.pop(min(fitting, key=lambda index: len(self._free[index])))


def _fill(memory: memoryview, descriptor: int, offset: int) -> int:
    """Read until the memory is full or the file ends, and return the number of bytes."""
    total = 0
    while total < len(memory):
        count = os.preadv(descriptor, [memory[total:]], offset + total)
        total += count
        if not count or count % mmap.PAGESIZE:
            break
    return total
