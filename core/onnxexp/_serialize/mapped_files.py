"""Read memory-mapped weights with few of them at a time in resident memory.

safetensors and `torch.load(mmap=True)` map a checkpoint into memory, where the first use of a page reads it from the file. While
a model is written, all pages of a weight are mapped in one call, and unmapped when the weight is written. They remain in the
system's cache. Otherwise the resident memory would grow by the whole checkpoint, and each page would cost a page fault: 1.1 GB
took 0.55 s to write with page faults, and 0.18 s without.

Where a file is written past the cache, weights that are not in the cache are read past it too (see `direct_io`). In this way,
13.5 GB took 5 s to read and 4 s to transpose, and 7 and 12 s through the cache of a virtual machine.

A file whose pages were changed in memory is left alone: unmapping would lose the changes. Without Linux's /proc, pages are read
one by one and stay until the system needs the room.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from onnxexp._builder.torch_tensor_data import has_data
from onnxexp._errors import SerializeError
from onnxexp._serialize.direct_io import DirectReader

_LARGE = 1 << 20
"""Bytes from which a weight is worth the calls."""
_UNMAP, _MAP = 4, 22
"""MADV_DONTNEED and MADV_POPULATE_READ, see madvise(2)."""
_QUERY, _OF_FILE, _SHARED = 0xC0686611, 0x20, 0x08
"""PROCMAP_QUERY, PROCMAP_QUERY_FILE_BACKED_VMA and PROCMAP_QUERY_VMA_SHARED, see linux/fs.h."""
_QUERIED = struct.Struct("=9Q4I2Q")
"""The structure of the query: its size, the flags, the address, and the answer, whose third field has the flags of the memory."""
_PRIVATE_FILE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) r..p ([0-9a-f]+) \S+ ([1-9][0-9]*) +(.*)", re.MULTILINE)
_CHANGED = re.compile(rb"^(?:Anonymous|Swap|Private_Hugetlb): +[1-9]", re.MULTILINE)


class _Mapping(NamedTuple):
    """A mapped file, with its addresses and the offset of the first one in the file."""

    addresses: range
    offset: int
    inode: int
    path: str


class MappedFiles:
    """The mapped files of this process at the first use, without changed pages."""

    def __init__(self) -> None:
        self._tables: dict[str, list[_Mapping]] = {}
        self._reader = DirectReader()

    def read(self, tensor: torch.Tensor, name: str, past_cache: bool) -> tuple[torch.Tensor, Callable[[], None]]:
        """Read a weight, and return it with the function that ends its use.

        A weight that was read past the cache is returned as a copy. A weight that is in no such file is returned as it is.

        Raises:
            SerializeError: The file has become shorter than the weight.
        """
        mappable = sys.platform == "linux" and tensor.nbytes >= _LARGE and tensor.device.type == "cpu" and has_data(tensor)
        pages = _pages(tensor) if mappable else range(0)
        # The second table takes 10 ms for each GB in use, so it is read where there is such a file.
        if not pages or not self._is_of_file(pages) or not (file := self._find("smaps", pages)):
            return tensor, _nothing
        if past_cache and not _cached(pages) and (memory := self._reader.read(*_range(file, tensor))) is not None:
            return _same_view(tensor, memory), functools.partial(self._reader.reuse, memory)
        if _advise(pages, _MAP) == errno.EFAULT:
            raise SerializeError(
                f"initializer {name!r} is memory-mapped, and its file was truncated since; "
                "to fix this, restore it, and export again"
            )
        return tensor, functools.partial(_unmap, pages)

    def _is_of_file(self, pages: range) -> bool:
        """Return whether memory may be that of a private file.

        This queries one address; before Linux 6.11 it reads the first table, which takes 2 ms.
        """
        import fcntl  # not on Windows

        query = bytearray(_QUERIED.pack(_QUERIED.size, _OF_FILE, pages.start, *[0] * 12))
        try:
            with open("/proc/self/maps", "rb") as maps:
                fcntl.ioctl(maps, _QUERY, query)
        except OSError as error:  # ENOENT for memory of no file
            return error.errno != errno.ENOENT and self._find("maps", pages) is not None
        return not _QUERIED.unpack(query)[5] & _SHARED  # such as that of a tensor that processes share

    def _find(self, table: str, pages: range) -> _Mapping | None:
        if table not in self._tables:
            self._tables[table] = _private_files(table)
        found = (file for file in self._tables[table] if pages.start in file.addresses and pages[-1] in file.addresses)
        return next(found, None)


def _private_files(table: str) -> list[_Mapping]:
    """List the mapped files in a table of /proc, without changed ones."""
    try:
        text = Path("/proc/self", table).read_bytes()
    except OSError:
        return []
    blocks = [text] if table == "maps" else re.split(rb"\n(?=[0-9a-f]+-[0-9a-f]+ )", text)
    found = [match for block in blocks if not _CHANGED.search(block) for match in _PRIVATE_FILE.finditer(block)]
    return [_Mapping(range(int(m[1], 16), int(m[2], 16)), int(m[3], 16), int(m[4]), os.fsdecode(m[5])) for m in found]


def _addresses(tensor: torch.Tensor) -> range:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return range(tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size())


def _pages(tensor: torch.Tensor) -> range:
    """Return the addresses of the pages of a strided tensor."""
    used = _addresses(tensor)
    return range(used.start // mmap.PAGESIZE * mmap.PAGESIZE, -(-used.stop // mmap.PAGESIZE) * mmap.PAGESIZE)


def _range(file: _Mapping, tensor: torch.Tensor) -> tuple[str, int, int, int]:
    """Return the arguments of `DirectReader.read` for a weight."""
    start = _pages(tensor).start
    return file.path, file.inode, file.offset + start - file.addresses.start, _addresses(tensor).stop - start


def _same_view(tensor: torch.Tensor, memory: memoryview) -> torch.Tensor:
    """Return the tensor's view of a copy of its memory, from its first page on."""
    used = _addresses(tensor)
    offset = used.start - _pages(tensor).start
    flat = torch.frombuffer(memory, dtype=tensor.dtype, offset=offset, count=len(used) // tensor.element_size())
    return flat.as_strided(tensor.shape, tensor.stride(), 0)


def _cached(pages: range) -> bool:
    """Return whether the system has most of the pages in its cache."""
    found = (ctypes.c_ubyte * (len(pages) // mmap.PAGESIZE))()
    failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(pages.start), ctypes.c_size_t(len(pages)), found)
    return bool(failed) or 2 * sum(bytes(found)) > len(found)


def _advise(pages: range, advice: int) -> int:
    """Call madvise(2) and return its error number, or 0 without an error."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    done = madvise(ctypes.c_void_p(pages.start), ctypes.c_size_t(len(pages)), ctypes.c_int(advice))
    return ctypes.get_errno() if done else 0


def _unmap(pages: range) -> None:
    _advise(pages, _UNMAP)


def _nothing() -> None:
    pass
