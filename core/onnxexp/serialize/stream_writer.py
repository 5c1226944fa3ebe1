"""Write the parts of a layout into a stream, one after the other."""

from __future__ import annotations

import io
from collections.abc import Iterator

import onnx_ir as ir

from onnxexp.builder.torch_tensor_data import BinaryWriter, TorchTensor, contiguous_bytes
from onnxexp.errors import SerializeError
from onnxexp.serialize.proto_layout import FileLayout, Part

__all__ = ["write_stream"]


def write_stream(file: BinaryWriter, layout: FileLayout) -> None:
    """Write from the stream's current position on, without seeking."""
    position = 0
    for part in layout.parts:
        if part.offset > position:
            _write_all(file, memoryview(bytes(part.offset - position)))
        for memory in _contents(part):
            _write_all(file, memory)
        position = part.offset + part.size


def _contents(part: Part) -> Iterator[memoryview]:
    if isinstance(part.content, bytes):
        yield memoryview(part.content)
        return
    tensor = part.content.raw() if isinstance(part.content, ir.LazyTensor) else part.content  # computed once
    if isinstance(tensor, TorchTensor) and tensor.nbytes == part.size:
        yield from map(contiguous_bytes, tensor.pieces())
        return
    contents = tensor.tobytes()
    if len(contents) != part.size:
        raise SerializeError(f"initializer {part.name!r} has a size of {part.size:,} bytes and contents of {len(contents):,}")
    yield memoryview(contents)


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
