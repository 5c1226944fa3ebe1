"""Compute the offset of each part of a model file before the first write.

onnx-ir serializes the skeleton, which is everything but the initializers of the main graph, and small. One record per initializer
follows, and its contents are read from the tensor while they are written. The tags and lengths around the graph, around each
initializer and around its `raw_data` are encoded here. The result is an ordinary protobuf message; only the order of its fields
differs from that of `SerializeToString`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import google.protobuf.message  # type: ignore[import-untyped]
import onnx
import onnx_ir as ir
from google.protobuf.internal import encoder, wire_format  # type: ignore[import-untyped]

from onnxexp._errors import SerializeError

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""The numbers of the fields in ONNX's messages."""

_PAGE = 1 << 12
_LARGE_PAGE = 1 << 16
_LARGE = 1 << 20


class Part(NamedTuple):
    """A range of a file, as bytes or a tensor's contents, with a name for messages."""

    offset: int
    size: int
    content: bytes | ir.TensorProtocol
    name: str = ""


class FileLayout(NamedTuple):
    """A file by its size and its parts by offset, with zeros in gaps between parts."""

    parts: Sequence[Part] = ()
    size: int = 0


def lay_out(model: ir.Model, location: str | None = None, threshold: int = 0) -> tuple[FileLayout, FileLayout]:
    """Lay out the model file and its data file.

    The data file, where `location` names one, has the initializers of `threshold` bytes and more.

    Raises:
        SerializeError: An initializer has no value, or the rest of the model exceeds protobuf's limit.
    """
    records: list[tuple[bytes, ir.TensorProtocol | None]] = []
    external: list[Part] = []
    end = 0
    for name, tensor in _initializers(model):
        if any(
            isinstance(size, int) and size < 0 for size in tensor.shape
        ):  # a negative length has no end in protobuf's encoding
            raise SerializeError(f"initializer {name!a} has the sizes {tensor.shape}; to fix this, give it sizes of 0 and more")
        proto = onnx.TensorProto()
        describe(proto, name, tensor)
        if tensor.dtype == ir.DataType.STRING:
            records.append((_tagged(_INITIALIZER, proto.ByteSize()) + proto.SerializeToString(), None))
        elif location is not None and tensor.nbytes >= threshold:
            part = Part(_aligned(end, tensor.nbytes), tensor.nbytes, tensor, name)
            external.append(part)
            end = part.offset + part.size
            proto.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", part.offset), ("length", part.size)):
                proto.external_data.add(key=key, value=str(value))
            records.append((_tagged(_INITIALIZER, proto.ByteSize()) + proto.SerializeToString(), None))
        else:
            raw = proto.SerializeToString() + _tagged(_RAW_DATA, tensor.nbytes)
            records.append((_tagged(_INITIALIZER, len(raw) + tensor.nbytes) + raw, tensor))
    return _model_file(model, records), FileLayout(external, end)


@contextlib.contextmanager
def _valid_text() -> Iterator[None]:
    """Replace the errors for a text without an encoding by a SerializeError."""
    try:
        yield
    except (UnicodeEncodeError, ir.serde.SerdeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if not isinstance(cause, UnicodeEncodeError):
            raise
        raise SerializeError(
            f"the model cannot be written: its text {cause.object!a} is no valid Unicode. If it is a name, choose another one."
        ) from error


@_valid_text()
def skeleton(model: ir.Model) -> onnx.ModelProto:
    """Serialize everything but the initializers of the main graph.

    Raises onnx-ir's SerdeError where the model does not fit into a message.
    """
    graph = model.graph
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        name=graph.name,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        metadata_props=graph.metadata_props,
    )
    bare = copy.copy(model)
    bare.graph = cast(ir.Graph, view)  # onnx-ir documents a model over a view, but annotates a Graph
    return ir.serde.serialize_model(bare)


def _initializers(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            yield name, value.const_value
        elif all(name != given.name for given in model.graph.inputs):
            raise SerializeError(f"initializer {name!r} has no value: set its const_value, or make it an input of the graph")


def _model_file(model: ir.Model, records: list[tuple[bytes, ir.TensorProtocol | None]]) -> FileLayout:
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
    body = sum(len(record) + (tensor.nbytes if tensor is not None else 0) for record, tensor in records)
    head += _tagged(_GRAPH, len(graph) + body) + graph
    parts, end = [Part(0, len(head), head)], len(head)
    for record, tensor in records:
        parts.append(Part(end, len(record), record))
        end += len(record)
        if tensor is not None:
            parts.append(Part(end, tensor.nbytes, tensor, tensor.name or ""))
            end += tensor.nbytes
    return FileLayout(parts, end)


@_valid_text()
def describe(proto: onnx.TensorProto, name: str, tensor: ir.TensorProtocol) -> None:
    """Write a tensor into an empty message, without its contents.

    A tensor of strings is written whole, since it has no raw form.
    """
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


def _aligned(end: int, size: int) -> int:
    """Round up to an offset that a runtime can map, a page, or 64 KiB if large."""
    page = _LARGE_PAGE if size >= _LARGE else _PAGE
    return -(-end // page) * page


def _tagged(field: int, length: int) -> bytes:
    """Encode the beginning of a field whose contents have this length."""
    begin: bytes = encoder.TagBytes(field, wire_format.WIRETYPE_LENGTH_DELIMITED) + encoder._VarintBytes(length)
    return begin
