"""Where each byte of a model goes, known before the first one is written.

Protobuf's wire format is written by hand at three places: around the graph, around each initializer and around its
`raw_data`. All lengths are known beforehand, so a model is its skeleton (everything but the initializers, small) followed
by one record per initializer, whose contents come straight from the tensor when they are written. What comes out is an
ordinary protobuf message; only the order of its fields differs from that of `SerializeToString`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import google.protobuf.message  # type: ignore[import-untyped]
import onnx
import onnx_ir as ir
import torch

from onnxexp.errors import SerializeError
from onnxexp.serialize.messages import skeleton
from onnxexp.tensors import TorchTensor

__all__ = ["Chunk", "Layout", "chunks", "contents", "describe", "lay_out"]

Chunk = bytes | bytearray | memoryview | torch.Tensor
"""Bytes, or one of `onnxexp.tensors.pieces`, which `onnxexp.tensors.Scratch` turns into bytes."""

_Record: TypeAlias = tuple[bytes, ir.TensorProtocol | None, int]
"""What a model file says of an initializer, and what follows it there: its contents, of that many bytes, or nothing."""

_LENGTH_DELIMITED = 2
_GRAPH = 7 << 3 | _LENGTH_DELIMITED
_INITIALIZER = 5 << 3 | _LENGTH_DELIMITED
_RAW_DATA = 9 << 3 | _LENGTH_DELIMITED

_SMALL = 1 << 14
_GATHERED = 1 << 20
_PAGE = 1 << 12
_LARGE_PAGE = 1 << 16
_LARGE = 1 << 20


class Part(NamedTuple):
    """A range of a file: bytes, or the contents of a tensor (`name` for messages)."""

    offset: int
    size: int
    content: bytes | ir.TensorProtocol
    name: str = ""


class Layout(NamedTuple):
    """A file: its parts by offset, with gaps that read as zeros, and its size."""

    parts: Sequence[Part] = ()
    size: int = 0


def lay_out(model: ir.Model, location: str | None = None, threshold: int = 0) -> tuple[Layout, Layout]:
    """The model file and its data file; the latter has the initializers of `threshold` bytes and more where `location` names it.

    Raises:
        SerializeError: An initializer has no value, or what is not an initializer exceeds protobuf's limit.
    """
    records: list[_Record] = []
    external: list[Part] = []
    end = 0
    for name, tensor in _initializers(model):
        proto = onnx.TensorProto()
        describe(proto, name, tensor)
        if tensor.dtype == ir.DataType.STRING:
            records.append((_tagged(_INITIALIZER, proto.ByteSize()) + proto.SerializeToString(), None, 0))
            continue
        size = tensor.nbytes
        if location is not None and size >= threshold:
            part = Part(_aligned(end, size), size, tensor, name)
            external.append(part)
            end = part.offset + size
            _refer(proto, location, part)
            records.append((_tagged(_INITIALIZER, proto.ByteSize()) + proto.SerializeToString(), None, 0))
        else:
            raw = proto.SerializeToString() + _tagged(_RAW_DATA, size)
            records.append((_tagged(_INITIALIZER, len(raw) + size) + raw, tensor, size))
    return _model_file(model, records), Layout(external, end)


def chunks(layout: Layout) -> Iterator[tuple[int, Chunk]]:
    """The file in the order of its offsets; small neighbours are gathered into one chunk."""
    gathered, start = bytearray(), 0
    for part in layout.parts:
        if gathered and (part.offset != start + len(gathered) or len(gathered) >= _GATHERED):
            yield start, gathered
            gathered = bytearray()
        if isinstance(part.content, bytes) or part.size <= _SMALL:
            start = start if gathered else part.offset
            gathered += contents(part)
            continue
        if gathered:
            yield start, gathered
            gathered = bytearray()
        yield from _large(part, part.content)
    if gathered:
        yield start, gathered


def _initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            yield name, value.const_value
        elif all(name != given.name for given in model.graph.inputs):
            raise SerializeError(f"initializer {name!r} has no value: set its const_value, or make it an input of the graph")


def _model_file(model: ir.Model, records: list[_Record]) -> Layout:
    try:
        proto = skeleton(model)
        graph = proto.graph.SerializeToString(deterministic=True)
        proto.ClearField("graph")
        head = proto.SerializeToString(deterministic=True)
    except (google.protobuf.message.EncodeError, ValueError) as error:
        raise SerializeError(
            f"the model cannot be encoded: {error}. If tensors inside subgraphs or attributes pass protobuf's limit of 2 GiB, "
            "make them initializers of the main graph: only those can be stored outside the model file."
        ) from error
    body = 0
    for record, _, size in records:
        body += len(record) + size
    head += _tagged(_GRAPH, len(graph) + body) + graph
    end = len(head)
    parts = [Part(0, end, head)]
    for record, tensor, size in records:
        parts.append(Part(end, len(record), record))
        end += len(record)
        if tensor is not None:
            parts.append(Part(end, size, tensor, tensor.name or ""))
            end += size
    return Layout(parts, end)


def describe(proto: onnx.TensorProto, name: str, tensor: ir.TensorProtocol) -> None:
    """Write the tensor into an empty message, without its contents (strings are small and have no raw form: they are in it)."""
    if tensor.dtype == ir.DataType.STRING:
        ir.serde.serialize_tensor_into(proto, tensor)
        proto.name = name
        return
    proto.name, proto.data_type = name, tensor.dtype
    proto.dims.extend(tensor.shape.dims)
    if tensor.doc_string:
        proto.doc_string = tensor.doc_string
    for key, value in sorted(tensor.metadata_props.items()):
        proto.metadata_props.add(key=key, value=value)


def _refer(proto: onnx.TensorProto, location: str, part: Part) -> None:
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", part.offset), ("length", part.size)):
        proto.external_data.add(key=key, value=str(value))


def _aligned(end: int, size: int) -> int:
    """The next offset from which a runtime can map the tensor: a page, for a large one the 64 KiB that Windows maps by."""
    page = _LARGE_PAGE if size >= _LARGE else _PAGE
    return -(-end // page) * page


def _large(part: Part, tensor: ir.TensorProtocol) -> Iterator[tuple[int, Chunk]]:
    if isinstance(tensor, ir.LazyTensor):
        tensor = tensor.raw()  # made here, once, and written from where it is
    if not isinstance(tensor, TorchTensor) or part.size <= _GATHERED or tensor.nbytes != part.size:
        yield part.offset, contents(part._replace(content=tensor))
        return
    offset = part.offset
    for piece in tensor.pieces():
        yield offset, piece
        offset += piece.nbytes


def contents(part: Part) -> bytes | memoryview:
    """The bytes of a part."""
    content = part.content
    if isinstance(content, bytes):
        return content
    given = content.memory() if isinstance(content, TorchTensor) else content.tobytes()
    if len(given) != part.size:
        raise SerializeError(f"initializer {part.name!r} says that it has {part.size:,} bytes and gives {len(given):,}")
    return given


def _tagged(tag: int, length: int) -> bytes:
    encoded = [tag]
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
