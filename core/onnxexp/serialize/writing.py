"""Chunks into an open file: at their offsets by two threads, or one after the other into any stream."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from onnxexp.errors import SerializeError
from onnxexp.serialize.layout import Chunk, Layout, chunks, contents
from onnxexp.tensors import BinaryWriter, Scratch

__all__ = ["write_file", "write_stream"]

_WORTH_A_THREAD = 4 << 20
_AT_ONCE = 1 << 20
_PIECES = 1024
"""How many pieces of memory a system takes in one call."""


def write_file(descriptor: int, layout: Layout) -> None:
    """Write the file behind a descriptor that is open for writing and empty.

    Two threads take turns: while one is in the kernel, whose copies into one file do not overlap, the other transposes.
    """
    if not hasattr(os, "pwrite"):  # Windows
        with open(descriptor, "wb", buffering=0, closefd=False) as file:
            write_stream(file, layout)
        return
    if layout.size < _WORTH_A_THREAD:
        if not _written_at_once(descriptor, layout):
            _drain(chunks(layout), descriptor)
        return
    feed = _Feed(chunks(layout))
    with ThreadPoolExecutor(1, thread_name_prefix="onnxexp-write") as pool:
        helper = pool.submit(_share, feed, descriptor)
        _share(feed, descriptor)
    helper.result()


def write_stream(file: BinaryWriter, layout: Layout) -> None:
    """Write from the stream's current position on, without seeking."""
    scratch = Scratch()
    position = 0
    for offset, chunk in chunks(layout):
        if offset > position:
            _write_all(file, memoryview(bytes(offset - position)))
        memory = _memory(chunk, scratch)
        _write_all(file, memory)
        position = offset + len(memory)


def _written_at_once(descriptor: int, layout: Layout) -> bool:
    """Hand the parts of a little file to the system from where they lie; False where that is not all of it."""
    if layout.size > _AT_ONCE or len(layout.parts) > _PIECES or not hasattr(os, "pwritev"):
        return False
    end = 0
    for part in layout.parts:
        if part.offset != end:
            return False
        end += part.size
    return os.pwritev(descriptor, [contents(part) for part in layout.parts], 0) == layout.size


class _Feed:
    """An iterator for several threads; after `close` it is exhausted for all of them."""

    def __init__(self, items: Iterable[tuple[int, Chunk]]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[tuple[int, Chunk]]:
        return self

    def __next__(self) -> tuple[int, Chunk]:
        with self._lock:
            return next(self._items)

    def close(self) -> None:
        with self._lock:
            self._items = iter(())


def _share(feed: _Feed, descriptor: int) -> None:
    try:
        _drain(feed, descriptor)
    finally:
        feed.close()  # an error here, Ctrl-C too, ends the other thread after the chunk it is at


def _drain(items: Iterable[tuple[int, Chunk]], descriptor: int) -> None:
    scratch = Scratch()
    for offset, chunk in items:
        memory = _memory(chunk, scratch)
        while memory:
            written = os.pwrite(descriptor, memory, offset)
            memory, offset = memory[written:], offset + written


def _memory(chunk: Chunk, scratch: Scratch) -> memoryview:
    return scratch.memory(chunk) if isinstance(chunk, torch.Tensor) else memoryview(chunk)


def _write_all(file: BinaryWriter, memory: memoryview) -> None:
    while memory:
        written = file.write(memory)
        if not isinstance(written, int):
            if isinstance(file, io.RawIOBase):
                raise SerializeError(
                    "the file object does not block, so it cannot take a whole model: make it blocking, or give a path"
                )
            return  # a wrapper that does not count takes everything
        if not 0 < written <= len(memory):
            raise SerializeError(f"the file object's write() returned {written} for {len(memory)} bytes")
        memory = memory[written:]
