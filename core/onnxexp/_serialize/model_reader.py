"""Read an ONNX model that anyone may have written.

The message is checked before anything is made of it. `check_tensor` checks the sizes of tensors, and `DataFiles` finds their
external data; `_check_functions` bounds the nodes that functions expand to. onnx-ir and ONNX Runtime would allocate as much
memory as the sizes declare, open any file that a location names, and inline functions without a bound.

ONNX allows several tensors to share a range of a data file, as tied weights do. Hence overlaps are allowed, but all tensors
together may have at most four times the bytes of the file: a writer of the model would otherwise repeat a range without a bound.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import google.protobuf.message  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import open_regular, read_regular

_LARGEST = (1 << 31) - 1
"""Bytes of the largest message that protobuf reads."""
_EXPANDED, _EXPANSION = 100_000, 100
"""Nodes that functions may expand to, and how many for each node of the file: a function that calls another one twice, and so on
forty times, has 2**40."""
_SHOWN = 300
_Function: TypeAlias = "tuple[str, str, str]"
_Body: TypeAlias = "onnx.GraphProto | onnx.FunctionProto"


def read_model(source: str | os.PathLike[str] | bytes) -> ir.Model:
    """Read an ONNX model and map its external data into memory.

    Args:
        source: The path of a file, or the bytes of one. The external data of a file must be regular files in its folder, or below
            it. A model from bytes has no folder, and may have no external data.

    Raises:
        OptionError: There is no such file, it is no ONNX model, or it is damaged. The message names the tensor.
    """
    path = None if isinstance(source, bytes) else Path(source)
    name = "the model" if path is None else str(path)
    contents = source if isinstance(source, bytes) else read_regular(source, _LARGEST)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(contents)
    except google.protobuf.message.DecodeError as error:
        raise _no_model(name, error) from error
    if not proto.HasField("graph"):
        raise OptionError(f"{name} is not an ONNX model: it has no graph; to fix this, give a file that an export has written")
    if not _has_valid_texts(proto):
        raise OptionError(f"{name} is not an ONNX model: it has a text that is no UTF-8; to fix this, {DAMAGED}")
    files = DataFiles(name, path)
    _check_functions(proto, name)
    for tensor in proto.graph.initializer:
        check_tensor(tensor, name)
    for tensor in _inner_tensors(proto):
        check_tensor(tensor, name)
        if is_external(tensor):  # onnx-ir and ONNX Runtime would look for the file in other places
            files.load(tensor)
    external = {tensor.name: files.mapped(tensor) for tensor in proto.graph.initializer if is_external(tensor)}
    try:
        model = ir.serde.deserialize_model(proto)
    except Exception as error:  # onnx-ir's errors have no common class
        raise _no_model(name, error) from error
    for value in model.graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = external[value.name or ""]
    return model


def _has_valid_texts(message: google.protobuf.message.Message) -> bool:
    """Return whether all texts of a message are Unicode.

    protobuf returns bytes for other texts.
    """
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            if not all(isinstance(text, str) for text in texts):
                return False
        elif field.type == field.TYPE_MESSAGE:
            messages = [value] if isinstance(value, google.protobuf.message.Message) else value
            if not all(map(_has_valid_texts, messages)):
                return False
    return True


def _no_model(name: str, error: Exception) -> OptionError:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause).strip().partition("\n")[0][:_SHOWN]
    return OptionError(f"{name} is not an ONNX model: {type(cause).__name__}: {text}; to fix this, {DAMAGED}")


def _inner_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model but the graph's initializers."""
    for root in (model.graph, *model.functions):
        for graph in (root, *_inner(root)):
            if isinstance(graph, onnx.GraphProto):
                if graph is not root:
                    yield from graph.initializer
                for sparse in graph.sparse_initializer:
                    yield from (sparse.values, sparse.indices)
            for attribute in _attributes(graph):
                yield from _held(attribute)


def _attributes(graph: _Body) -> Iterator[onnx.AttributeProto]:
    for node in graph.node:
        yield from node.attribute
    if isinstance(graph, onnx.FunctionProto):
        yield from graph.attribute_proto


def _held(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t") or attribute.type == onnx.AttributeProto.TENSOR:
        yield attribute.t
    yield from attribute.tensors
    sparse = [*attribute.sparse_tensors, *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])]
    for each in sparse:
        yield from (each.values, each.indices)


def _inner(root: _Body) -> Iterator[onnx.GraphProto]:
    """Yield the graphs inside of a graph or a function."""
    waiting = [root]
    while waiting:
        for attribute in _attributes(waiting.pop()):
            found = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            yield from found
            waiting += found


def _check_functions(model: onnx.ModelProto, name: str) -> None:
    """Raise OptionError where functions call themselves, or expand to too much."""
    bodies: dict[_Function, onnx.FunctionProto] = {(each.domain, each.name, each.overload): each for each in model.functions}
    if not bodies:
        return
    calls = {function: _calls(body, bodies) for function, body in bodies.items()}
    try:
        order = list(TopologicalSorter({function: list(called) for function, called in calls.items()}).static_order())
    except CycleError as error:
        shown = " -> ".join(repr(each[1]) for each in error.args[1][:5])
        raise OptionError(
            f"{name} is not an ONNX model: its functions call themselves ({shown}); to fix this, {DAMAGED}"
        ) from None
    expanded: dict[_Function, int] = {}
    for function in order:
        expanded[function] = len(bodies[function].node) + sum(expanded[each] * count for each, count in calls[function].items())
    total = sum(expanded[each] * count for each, count in _calls(model.graph, bodies).items())
    own = len(model.graph.node) + sum(len(body.node) for body in bodies.values())
    if total > _EXPANDED + _EXPANSION * own:
        raise OptionError(f"{name} is not loaded: its functions expand to {total:,} nodes from {own:,}; to fix this, {DAMAGED}")


def _calls(body: _Body, functions: Iterable[_Function]) -> dict[_Function, int]:
    """Count the calls of each function in a body."""
    counts: dict[_Function, int] = defaultdict(int)
    for graph in (body, *_inner(body)):
        for node in graph.node:
            if (called := (node.domain, node.op_type, node.overload)) in functions:
                counts[called] += 1
    return counts


DAMAGED = "export or download the file again, which is damaged or was made to do harm"
_FIELDS = ("raw_data", "int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")
_T = ir.DataType
_FIELD_OF = {
    **dict.fromkeys((_T.FLOAT, _T.COMPLEX64), "float_data"),
    **dict.fromkeys((_T.DOUBLE, _T.COMPLEX128), "double_data"),
    **dict.fromkeys((_T.UINT32, _T.UINT64), "uint64_data"),
    _T.INT64: "int64_data",
    _T.STRING: "string_data",
}
"""The field for the elements of a tensor without raw data; `int32_data` for all other types."""
_TYPES = {each.value for each in _T} - {_T.UNDEFINED.value}
_HIGHEST_RANK = 64
"""numpy's limit."""
_MOST_BYTES = 1 << 62
_SHARED, _SHARES = 1 << 20, 4
_NUMBER = re.compile(r"[0-9]{1,19}")


def is_external(tensor: onnx.TensorProto) -> bool:
    """Return whether a tensor's data is in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def check_tensor(tensor: onnx.TensorProto, file: str) -> None:
    """Raise OptionError where a tensor's type, sizes and data contradict."""
    if problem := _problem(tensor):
        raise OptionError(f"{file}: tensor {tensor.name!a} {problem}; to fix this, {DAMAGED}")


def _problem(tensor: onnx.TensorProto) -> str:
    if tensor.data_type not in _TYPES:
        return f"has the data type {tensor.data_type}, which ONNX does not define"
    dtype, dims = _T(tensor.data_type), list(tensor.dims)
    if any(size < 0 for size in dims):
        return f"has the sizes {dims[:_HIGHEST_RANK]}; one is negative"
    if len(dims) > _HIGHEST_RANK:
        return f"has {len(dims):,} axes"
    if math.prod(max(size, 1) for size in dims) * 16 >= _MOST_BYTES:
        return f"has the sizes {dims}, which no memory has room for"
    if dtype == _T.STRING and (is_external(tensor) or tensor.HasField("raw_data")):
        return "has strings, which cannot be raw or external data"
    data = {field: getattr(tensor, field) for field in _FIELDS}  # by ONNX's names
    used = [field for field, contents in data.items() if len(contents) or (field == "raw_data" and tensor.HasField(field))]
    if is_external(tensor):
        return f"has external data and {used[0]}" if used else ""
    field = used[0] if used else _FIELD_OF.get(dtype, "int32_data")
    if len(used) > 1 or field not in ("raw_data", _FIELD_OF.get(dtype, "int32_data")):
        return f"is {dtype.name} and has {' and '.join(used)}"
    given, wanted = len(data[field]), _length(dtype, math.prod(dims), field)
    return f"has the sizes {dims} and {given:,} elements of {field}, not {wanted:,}" if given != wanted else ""


def _length(dtype: ir.DataType, elements: int, field: str) -> int:
    """Return the number of elements that a field needs for a tensor."""
    if field == "raw_data":
        return -(-elements * dtype.bitwidth // 8)
    if dtype in (_T.COMPLEX64, _T.COMPLEX128):
        return 2 * elements
    return -(-elements * dtype.bitwidth // 8) if dtype != _T.STRING and dtype.bitwidth in (2, 4) else elements


@dataclasses.dataclass
class _DataFile:
    """A mapped file, and the bytes of all tensors in it."""

    contents: mmap.mmap | bytes
    used: int = 0


class DataFiles:
    """The data files of a model, each mapped once.

    Args:
        model: The name of the model in messages.
        path: The model's file; None for one without.
    """

    def __init__(self, model: str, path: Path | None) -> None:
        self._model, self._path = model, path
        self._by_location: dict[str, _DataFile] = {}
        self._by_place: dict[Path, _DataFile] = {}

    def load(self, tensor: onnx.TensorProto) -> None:
        """Put the external data of a tensor into its message.

        Raises OptionError as `mapped`.
        """
        tensor.raw_data = self._read(tensor).tobytes()
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT

    def mapped(self, tensor: onnx.TensorProto) -> ir.TensorProtocol:
        """Return a tensor whose elements are those of the mapped file.

        Raises OptionError where its data cannot be read, since it names no regular file in the model's folder, or a range that
        the file lacks.
        """
        data, dtype, shape = self._read(tensor), _T(tensor.data_type), ir.Shape(tensor.dims)
        found: ir.TensorProtocol
        if dtype.bitwidth < 8:
            found = ir.PackedTensor(data, dtype, shape=shape, name=tensor.name, doc_string=tensor.doc_string)
        else:
            array = data.view(dtype.numpy().newbyteorder("<")).reshape(tensor.dims)
            found = ir.Tensor(array, dtype, shape=shape, name=tensor.name, doc_string=tensor.doc_string)
        found.metadata_props.update(ir.serde.deserialize_metadata_props(tensor.metadata_props) or {})
        return found

    def _read(self, tensor: onnx.TensorProto) -> npt.NDArray[np.uint8]:
        """Return the bytes of a tensor's external data."""
        location, offset, size = self._range(tensor)
        file = self._open(tensor, location)
        if offset + size > len(file.contents):
            raise self._error(tensor, f"bytes {offset:,} to {offset + size:,} of {location!a}, which has {len(file.contents):,}")
        file.used += size
        if file.used > max(_SHARED, _SHARES * len(file.contents)):
            raise self._error(tensor, f"{location!a}, as others have: together more than {_SHARES} times its bytes")
        return np.frombuffer(file.contents, np.uint8, size, offset) if size else np.empty(0, np.uint8)

    def _range(self, tensor: onnx.TensorProto) -> tuple[str, int, int]:
        """Return a tensor's location, its offset and its bytes."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        size = _length(_T(tensor.data_type), math.prod(tensor.dims), "raw_data")
        offset, length = entries.get("offset", "0"), entries.get("length", str(size))
        if not _NUMBER.fullmatch(offset) or not _NUMBER.fullmatch(length):
            raise self._error(tensor, f"the offset {offset[:30]!a} and the length {length[:30]!a}, which are no numbers of bytes")
        if int(length) != size:
            raise self._error(tensor, f"{int(length):,} bytes for the sizes {list(tensor.dims)}, which need {size:,}")
        return entries.get("location", ""), int(offset), size

    def _open(self, tensor: onnx.TensorProto, location: str) -> _DataFile:
        if location not in self._by_location:
            place = self._place(tensor, location)
            if place not in self._by_place:
                self._by_place[place] = self._map(tensor, place)
            self._by_location[location] = self._by_place[place]
        return self._by_location[location]

    def _map(self, tensor: onnx.TensorProto, place: Path) -> _DataFile:
        try:
            with open_regular(place) as file:
                status = os.fstat(file.fileno())
                contents = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if status.st_size else b""
        except (OptionError, OSError) as error:
            raise self._error(tensor, f"another file: {error}") from error
        if status.st_nlink > 1:  # another name of any file of the user, which the folder's author may have guessed
            raise self._error(tensor, f"{str(place)!a}, which is a hard link: copy the file")
        return _DataFile(contents)

    def _place(self, tensor: onnx.TensorProto, location: str) -> Path:
        """Return the path of a location, which is in the model's folder or below.

        If the model is a link, the data may be beside its target, as in the cache of huggingface_hub.
        """
        if self._path is None:
            raise self._error(tensor, f"{location[:100]!a}, and a model in memory has no folder")
        try:
            place = (self._path.parent / location).resolve()
            roots = {self._path.parent.resolve(), self._path.resolve().parent}
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle; NUL in a name
            raise self._error(tensor, f"{location[:100]!a}, which no file is called ({error})") from error
        if not any(place.is_relative_to(root) for root in roots):
            raise self._error(tensor, f"{location[:100]!a}, which leads out of the model's folder")
        return place

    def _error(self, tensor: onnx.TensorProto, problem: str) -> OptionError:
        return OptionError(f"{self._model}: tensor {tensor.name!a} has external data in {problem}; to fix this, {DAMAGED}")
