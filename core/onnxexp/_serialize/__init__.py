"""Write a model without a second copy of its weights, and whole or not at all.

**One file.** One protobuf message, as long as it stays below protobuf's limit of 2 GiB.

**Two files.** Beyond that the weights go to ``model.onnx.data`` beside ``model.onnx``, which refers to it by that name.

**Atomic.** A file is written in a hidden folder beside its destination and moved there when it is complete, so that a reader
opens the old one or the new one. `new_pair` describes the order of steps for two files. After a kill at any moment, and with
any number of writers of one path in threads and processes, the path is one of the models, whole. A process that is killed may
leave its hidden folder (``.onnxexp-<random>.tmp``); the next save into the same folder removes it. The same model always gives
the same bytes.

**A reader beside a writer.** No file system exchanges two files in one step. A reader that opens a model file, and its data file
only after a writer has exchanged both, may have the old graph with the new weights, or find no data file. It can see that: the
model file is then no longer the one that it opened (`os.stat`: another inode or time). If it still is, the data belongs to it.

**One file over a pair.** The data file of the old pair stays, since other models may refer to it. The next pair of this name
replaces it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar, cast

import onnx
import onnx_ir as ir

from onnxexp._builder.torch_tensor_data import BinaryWriter, TorchTensor, Transposer
from onnxexp._errors import OptionError, SerializeError
from onnxexp._serialize.atomic_file import NewFile, OutputFile, file_errors, new_file
from onnxexp._serialize.direct_io import blocks, exceeds_cache, past_cache
from onnxexp._serialize.mapped_files import MappedFiles
from onnxexp._serialize.new_pair import new_pair, superseded_data
from onnxexp._serialize.proto_layout import FileLayout, Part, describe, lay_out, skeleton

__all__ = ["SavedFile", "WriteOptions", "save", "to_proto"]

T = TypeVar("T")

_LIMIT = 2**31 - 1
"""Bytes of the largest message that protobuf reads."""
_MARGIN = 16 << 20
_WRITE = 1 << 20
"""Bytes of one write. 3.8 GB of mapped weights took 3.0 s so, and 12.6 s with one write for each weight (Linux 6.18, ext4)."""

_WORTH_THREADS = 1 << 30
"""Bytes of a file from which threads are worth their memory."""
_AHEAD = 4
"""Blocks that are filled while another one is written."""
_Release: TypeAlias = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class WriteOptions:
    """The options for writing a model.

    Attributes:
        external_data: None: a data file beside the model only where one file would come within 16 MiB of protobuf's limit (room
            for additions by tools). True: always. False: never; a model that does not fit raises `SerializeError`.
        external_threshold: Bytes from which an initializer goes to the data file, if there is one; smaller ones stay inline.
    """

    external_data: bool | None = None
    external_threshold: int = 1024

    def __post_init__(self) -> None:
        if self.external_threshold < 0:
            raise OptionError(f"external_threshold is a number of bytes, not {self.external_threshold}")


@dataclasses.dataclass(frozen=True)
class SavedFile:
    """The files of a saved model.

    Attributes:
        paths: The model file, then its data file if there is one; empty where a file object was given.
        bytes: The bytes of all files together.
    """

    paths: tuple[Path, ...]
    bytes: int


def save(model: ir.Model, target: str | os.PathLike[str] | BinaryIO, options: WriteOptions = WriteOptions()) -> SavedFile:
    """Write a model to a path, or to a binary file object at its current position.

    An existing file keeps its permissions and is replaced when the new one is complete; on any error it stays as it is.
    A link is followed. Weights in `TorchTensor`s are written piece by piece and never copied as a whole.

    Raises:
        SerializeError: The model does not fit, or the system refuses to write it; the message names the fix.
        OptionError: The target is neither a path nor a binary file object, or `external_data` is True for a file object.
    """
    if isinstance(target, (str, os.PathLike)):
        return _save_files(model, target, options)
    if isinstance(target, io.TextIOBase):
        raise OptionError("a model is written to a binary file, this one was opened for text: open it in mode 'wb'")
    if not hasattr(target, "write"):
        raise OptionError(f"a model is written to a path or a binary file object, not to a {type(target).__name__}")
    if options.external_data:
        raise OptionError("external_data=True needs a path: a file object cannot have a second file beside it")
    if getattr(target, "closed", False):  # not every object with write() has it
        raise OptionError("a model is written to an open file, and this file object is closed: open it again, or give a path")
    if isinstance(target, io.IOBase) and not target.writable():
        raise OptionError(
            "a model is written to a file object, and this one was opened for reading; to fix this, open it in mode 'wb'"
        )
    layout, _ = lay_out(model)
    if layout.size > _LIMIT:
        raise _too_large(layout, "Give a path instead of a file object: the weights then go to a second file beside it.")
    name = str(getattr(target, "name", "the file object"))
    try:
        _write_stream(target, layout)
    except OSError as error:
        raise SerializeError(f"cannot write {layout.size:,} bytes to {name}: {error.strerror or error}") from error
    return SavedFile((), layout.size)


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Serialize the model in memory, with a copy of the weights."""
    proto = skeleton(model)
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            tensor = proto.graph.initializer.add()
            describe(tensor, name, value.const_value)
            if value.const_value.dtype != ir.DataType.STRING:
                tensor.raw_data = value.const_value.tobytes()
    return proto


def _save_files(model: ir.Model, target: str | os.PathLike[str], options: WriteOptions) -> SavedFile:
    path, given = OutputFile(target).check(), Path(os.fsdecode(target))
    if not options.external_data:
        layout, _ = lay_out(model)
        if layout.size <= (_LIMIT if options.external_data is False else _LIMIT - _MARGIN):
            return _save_one(path, given, layout)
        if options.external_data is False:
            raise _too_large(layout, "Leave external_data unset, or set it to True: the weights then go to a second file.")
    return _save_two(model, path, given, options.external_threshold)


def _too_large(layout: FileLayout, fix: str) -> SerializeError:
    return SerializeError(
        f"the model has {layout.size:,} bytes, and one file can have at most {_LIMIT:,} (protobuf's limit). {fix}"
    )


def _save_one(path: str, given: Path, layout: FileLayout) -> SavedFile:
    with file_errors(path, layout.size), new_file(path) as file:
        _write(file, layout)
        with superseded_data(path):
            file.publish()
    return SavedFile((given,), layout.size)


def _save_two(model: ir.Model, path: str, given: Path, threshold: int) -> SavedFile:
    data_path = OutputFile(path + ".data").check()
    for file, real in ((given, path), (given.with_name(os.path.basename(path) + ".data"), data_path)):
        if os.path.realpath(os.path.dirname(real)) != os.path.realpath(given.parent):
            raise SerializeError(
                f"cannot write {file}: it is a link into another folder ({real}), and a model looks for its data file beside the "
                "name by which it is opened. Give the path that the link leads to."
            )
    layout, data_layout = lay_out(model, _location(data_path), threshold)
    if not data_layout.parts:
        return _save_one(path, given, layout)
    with file_errors(path, layout.size + data_layout.size), new_pair(path, data_path) as pair:
        _write(pair.data, data_layout)
        _write(pair.model, layout)
        name = pair.publish(lambda file: _write(file, lay_out(model, pair.own_name, threshold)[0]))
    return SavedFile((given, given.with_name(name)), layout.size + data_layout.size)


def _location(data_path: str) -> str:
    """Return the text by which a model refers to its data."""
    name = os.path.basename(data_path)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise SerializeError(
            f"cannot write {data_path!a}: a model refers to its data file by name, and this one is no valid Unicode text. "
            "Choose another name, or external_data=False."
        ) from error
    return name


def _write(file: NewFile, layout: FileLayout) -> None:
    file.reserve(layout.size)
    if layout.size < _WORTH_THREADS or not exceeds_cache(layout.size):
        _write_stream(file.file, layout)
        return
    with past_cache(file.file) as direct:
        _write_stream(direct, layout, read_past_cache=True)


def _write_stream(file: BinaryWriter, layout: FileLayout, read_past_cache: bool = False) -> None:
    """Write from the stream's current position on, without seeking.

    For a large file, reads of mapped weights, transpositions and writes overlap in time.
    """
    if layout.size < _WORTH_THREADS:
        pieces = _pieces(_loaded(layout))
    else:
        loaded = read_ahead(_loaded(layout, read_past_cache), 2)
        pieces = read_ahead(blocks(_pieces(loaded), _AHEAD + 1), _AHEAD)
    with contextlib.closing(pieces):
        for piece in pieces:
            _write_all(file, piece)


def _loaded(layout: FileLayout, past_cache: bool = False) -> Generator[tuple[Iterator[memoryview], _Release]]:
    """Generate the contents of a file in order, each with its release.

    A mapped weight is in memory until its release.
    """
    position, mapped, transposer = 0, MappedFiles(), Transposer()
    for part in layout.parts:
        if part.offset > position:
            yield iter([memoryview(bytes(part.offset - position))]), _nothing
        position = part.offset + part.size
        yield _load(part, mapped, transposer, past_cache)  # no local name keeps it while the next part is computed


def _load(part: Part, mapped: MappedFiles, transposer: Transposer, past_cache: bool) -> tuple[Iterator[memoryview], _Release]:
    content = part.content.raw() if isinstance(part.content, ir.LazyTensor) else part.content  # computed once
    if not isinstance(content, TorchTensor) or content.nbytes != part.size:
        return iter([_whole(content, part)]), _nothing
    # A subclass computes its elements from the tensor that it has.
    stored, release = mapped.read(content.stored, part.name, past_cache and type(content) is TorchTensor)
    tensor = content if stored is content.stored else TorchTensor(stored, part.name)
    return tensor.contiguous_pieces(transposer), release


def _whole(content: bytes | ir.TensorProtocol, part: Part) -> memoryview:
    data = content if isinstance(content, bytes) else content.tobytes()
    if len(data) != part.size:
        raise SerializeError(f"initializer {part.name!r} has a size of {part.size:,} bytes and contents of {len(data):,}")
    return memoryview(data)


def _pieces(contents: Generator[tuple[Iterator[memoryview], _Release]]) -> Generator[memoryview]:
    """Generate the bytes in pieces, each valid until the next one is generated."""
    with contextlib.closing(contents):
        for pieces, release in contents:
            yield from pieces
            release()


def _nothing() -> None:
    pass


def _write_all(file: BinaryWriter, memory: memoryview) -> None:
    while memory:
        piece = memory[:_WRITE]
        written = file.write(piece)
        if not isinstance(written, int):
            if isinstance(file, io.RawIOBase):
                raise SerializeError(
                    "the file object does not block, so it cannot take a whole model: make it blocking, or give a path"
                )
            written = len(piece)  # a wrapper that does not count takes everything
        if not 0 < written <= len(piece):
            raise SerializeError(f"the file object's write() returned {written} for {len(piece)} bytes")
        memory = memory[written:]


def read_ahead(items: Generator[T], count: int) -> Generator[T]:
    """Generate a few items on a second thread while the caller uses others.

    An exception of the generator is raised in the place of its item. The generator is closed in the end.
    """
    end = object()
    with contextlib.closing(items), ThreadPoolExecutor(1, "onnxexp-read-ahead") as thread:
        coming = collections.deque(thread.submit(next, items, end) for _ in range(count))
        while (item := coming.popleft().result()) is not end:
            coming.append(thread.submit(next, items, end))
            yield cast(T, item)
