"""Read memory-mapped weights with few of them at a time in resident memory.

safetensors and `torch.load(mmap=True)` map a checkpoint into memory, where the first use of a page reads it from the file. While
a model is written, all pages of a weight are mapped in one call, and unmapped when the weight is written. They remain in the
system's cache. Otherwise the resident memory would grow by the whole checkpoint, and each page would cost a page fault: 1.1 GB
took 0.55 s to write with page faults, and 0.18 s without.

A file whose pages were changed in memory is left alone: unmapped, the changes would be lost. Without Linux's /proc, pages are
read one by one and stay until the system needs the room.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from onnxexp.builder.torch_tensor_data import has_data
from onnxexp.errors import SerializeError

__all__ = ["MappedFiles"]

_LARGE = 1 << 20
"""Bytes from which a weight is worth the calls."""
_UNMAP, _MAP = 4, 22
"""MADV_DONTNEED and MADV_POPULATE_READ, see madvise(2)."""
_PRIVATE_FILE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r..p \S+ \S+ [1-9]")
_CHANGED = re.compile(r"^(?:Anonymous|Swap|Private_Hugetlb): +[1-9]", re.MULTILINE)


class MappedFiles:
    """The files that this process had mapped at the first use, without changed pages."""

    def __init__(self) -> None:
        self._tables: dict[str, list[range]] = {}

    def map_pages(self, tensor: torch.Tensor, name: str) -> Callable[[], None]:
        """Map the pages of a weight, and return the function that unmaps them.

        Both do nothing where the weight is in no such file.

        Raises:
            SerializeError: The file has become shorter than the weight.
        """
        mappable = sys.platform == "linux" and tensor.nbytes >= _LARGE and tensor.device.type == "cpu" and has_data(tensor)
        pages = _pages(tensor) if mappable else range(0)
        # The first table takes 0.6 ms. The second one takes 10 ms for each GB in use, so it is read where there is such a file.
        if not pages or not self._has("maps", pages) or not self._has("smaps", pages):
            return lambda: None
        if _advise(pages, _MAP) == errno.EFAULT:
            raise SerializeError(
                f"initializer {name!r} is memory-mapped, and its file was truncated since; cure: restore it, and export again"
            )

        def unmap() -> None:
            _advise(pages, _UNMAP)

        return unmap

    def _has(self, table: str, pages: range) -> bool:
        if table not in self._tables:
            self._tables[table] = _private_files(table)
        return any(pages.start in file and pages[-1] in file for file in self._tables[table])


def _private_files(table: str) -> list[range]:
    """The addresses of the mapped files in a table of /proc, without changed ones."""
    try:
        text = Path("/proc/self", table).read_text(errors="replace")
    except OSError:
        return []
    blocks = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text)
    found = [match for block in blocks if (match := _PRIVATE_FILE.match(block)) and not _CHANGED.search(block)]
    return [range(int(match[1], 16), int(match[2], 16)) for match in found]


def _pages(tensor: torch.Tensor) -> range:
    """The addresses of the pages that a strided tensor is in."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start, end = tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
    return range(start // mmap.PAGESIZE * mmap.PAGESIZE, -(-end // mmap.PAGESIZE) * mmap.PAGESIZE)


def _advise(pages: range, advice: int) -> int:
    """Call madvise(2) and return its error number, 0 without an error."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    done = madvise(ctypes.c_void_p(pages.start), ctypes.c_size_t(len(pages)), ctypes.c_int(advice))
    return ctypes.get_errno() if done else 0
