"""Write the chunks of a layout into a stream, one after the other."""

from __future__ import annotations

import io

import torch

from onnxexp.builder.torch_tensor import BinaryWriter, StagingBuffers
from onnxexp.errors import SerializeError
from onnxexp.serialize.proto_layout import Chunk, FileLayout, chunks

__all__ = ["write_stream"]


def write_stream(file: BinaryWriter, layout: FileLayout) -> None:
    """Write from the stream's current position on, without seeking."""
    scratch = StagingBuffers()
    position = 0
    for offset, chunk in chunks(layout):
        if offset > position:
            _write_all(file, memoryview(bytes(offset - position)))
        memory = _memory(chunk, scratch)
        _write_all(file, memory)
        position = offset + len(memory)


def _memory(chunk: Chunk, scratch: StagingBuffers) -> memoryview:
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
