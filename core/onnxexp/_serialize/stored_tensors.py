"""Check the tensors of an ONNX message, and map those with external data.

ONNX allows several tensors to share a range of a data file, as tied weights do. Hence overlaps are allowed, but all tensors
together may have at most four times the bytes of the file: a writer of the model would otherwise repeat a range without a bound.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import open_regular

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
        return f"has the sizes {dims[:_HIGHEST_RANK]}, of which one is negative"
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
