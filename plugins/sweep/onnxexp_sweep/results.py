"""The results of a sweep: a folder of Parquet files, one row for each cell.

``cells.parquet`` is the table. Each finished cell becomes a small file in ``parts`` at once, and every `PARTS` of them are merged
into the table. A file gets its name when it is complete and on the disk, so that a reader sees no half-written one. After a
crash between a merge and the removal of its parts, rows are there twice; of rows with one key, the newest counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onnxexp import OptionError, SerializeError
from onnxexp.commands import OutputFile
from onnxexp_sweep.versions import PACKAGES

PARTS = 64
"""The number of small files that are merged into the table."""

_TABLE, _PARTS, _LOCK = "cells.parquet", "parts", "lock"

_SECONDS = tuple(f"{step}_seconds" for step in ("load", "export", "write", "check", "verify"))

SCHEMA = pa.schema(
    {
        **dict.fromkeys(("key", "cell", "model", "target"), pa.string()),
        "opset": pa.int32(),
        **dict.fromkeys(("frontend", "variant"), pa.string()),
        "options": pa.map_(pa.string(), pa.string()),
        **dict.fromkeys(("status", "step", "kind", "reason", "stderr"), pa.string()),
        "warnings": pa.list_(pa.string()),
        **dict.fromkeys(("started", "finished"), pa.timestamp("ms", tz="UTC")),
        "worker": pa.string(),
        **dict.fromkeys(("seconds", "processor_seconds", *_SECONDS), pa.float64()),
        "stages": pa.map_(pa.string(), pa.float64()),
        **dict.fromkeys(("peak_bytes", "nodes", "file_bytes"), pa.int64()),
        "max_error": pa.float64(),
        **dict.fromkeys(("verified", "not_verified"), pa.list_(pa.string())),
        **dict.fromkeys((name.replace("-", "_") for name in PACKAGES), pa.string()),
        "plugins": pa.map_(pa.string(), pa.string()),
    }
)
"""The columns; docs/how-to/sweep.md describes them."""


def row_of(job: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a cell, from its job and from what a worker returned."""
    versions = job["versions"]
    same = ("key", "model", "target", "opset", "frontend", "variant")
    found = {
        **{name: job[name] for name in same},
        "cell": job["name"],
        "options": [(name, str(value)) for name, value in job["options"].items()],
        **{name: outcome.get(name) for name in SCHEMA.names if name in outcome},
        "stages": list(outcome.get("stages", {}).items()),
        "started": int(1000 * outcome["started"]) if "started" in outcome else None,
        "finished": int(1000 * time.time()),
        **{name.replace("-", "_"): versions[name] for name in PACKAGES},
        "plugins": [(name, version) for name, version in versions.items() if name not in PACKAGES],
    }
    return {name: found.get(name) for name in SCHEMA.names}


class Results:
    """A folder of results that this process appends to.

        with Results(folder) as results:
            results.append(row)

    Raises OptionError where another process appends to the folder, or it contains other files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: FileIO | None = None

    def __enter__(self) -> Results:
        with self._explained():
            (self.folder / _PARTS).mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("a+b", buffering=0)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            owner = self._lock.read().decode("utf-8", "replace") or "another process"
            self._lock.close()
            raise OptionError(f"{owner} writes to {self.folder}: wait for its end, or give another folder by -o") from None
        with self._explained():
            self._lock.truncate(0)
            self._lock.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        try:
            if kind is None:  # else a full disk would be reported twice; the small files are read as they are
                self.compact()
        finally:
            if self._lock is not None:
                self._lock.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._lock is not None:
                self._lock.close()
            raise OptionError(f"cannot write results to {self.folder}: {error.strerror}; give another folder by -o") from None

    def done(self, *, failed_too: bool = True) -> set[str]:
        """Return the keys of the cells that have a result, or of those that are "ok"."""
        table = read(self.folder, ["key", "status"])
        if not failed_too:
            table = table.filter(pc.equal(table["status"], "ok"))
        return set(table["key"].to_pylist())

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; it is on the disk when this returns."""
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}.parquet"  # in the order of the rows
        _write(self.folder / _PARTS / name, pa.Table.from_pylist([_escaped(dict(row))], SCHEMA))
        if len(_files(self.folder / _PARTS)) >= PARTS:
            self.compact()

    def compact(self) -> None:
        """Merge the small files into the table."""
        parts = _files(self.folder / _PARTS)
        if not parts:
            return
        _write(self.folder / _TABLE, latest(_concatenated([*_main(self.folder), *parts], None), "key"))
        for part in parts:
            part.unlink()


def read(folder: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the newest row of each key; an empty table where there is none.

    Raises OptionError where the folder does not exist or a file of it is broken.
    """
    if not (folder / _PARTS).is_dir() and not (folder / _TABLE).is_file():
        raise OptionError(f"{folder} has no results of a sweep: there is no {_TABLE} in it; give the folder of -o")
    wanted = None if columns is None else list(dict.fromkeys([*columns, "key", "finished"]))
    return latest(_concatenated([*_main(folder), *_files(folder / _PARTS)], wanted), "key")


def latest(table: pa.Table, name: str) -> pa.Table:
    """Keep the newest row for each value of a column."""
    keys, finished = table[name].to_pylist(), table["finished"].cast(pa.int64()).to_pylist()
    newest: dict[str, int] = {}
    for index in sorted(range(len(keys)), key=lambda each: finished[each] or 0):
        newest[keys[index]] = index
    return table if len(newest) == len(keys) else table.take(sorted(newest.values()))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table's rows."""
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def _checked(table: pa.Table) -> pa.Table:
    """Return a table whose names and texts are valid, with the types of ours.

    Raises ArrowInvalid, ValueError or TypeError for another one.
    """
    table.validate(full=True)
    fields = {field.name: field for field in (*table.schema, *SCHEMA)}
    return table.cast(pa.schema([fields[name] for name in table.column_names]))


def _escaped(value: Any) -> Any:
    """Escape lone surrogates, which Parquet cannot store.

    An error may quote a name that is no Unicode.
    """
    if isinstance(value, dict):
        return {name: _escaped(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_escaped(each) for each in value)
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _main(folder: Path) -> Iterator[Path]:
    if (folder / _TABLE).is_file():
        yield folder / _TABLE


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _concatenated(files: Iterable[Path], columns: Sequence[str] | None) -> pa.Table:
    """Read files of this or an older release; columns that one of them lacks are null."""
    empty = SCHEMA.empty_table()
    tables = [empty if columns is None else empty.select(columns)]
    for file in files:
        try:
            with contextlib.suppress(FileNotFoundError):  # merged meanwhile by a sweep that goes on
                tables.append(_checked(pq.read_table(file, columns=columns)))
        except (pa.ArrowException, OSError, ValueError, TypeError, LookupError) as error:  # of what was damaged or made by hand
            raise OptionError(
                f"the file of results {file} is broken: {error}; to fix this, move it away, which loses its rows only"
            ) from None
    return pa.concat_tables(tables, promote_options="default")


def _write(path: Path, table: pa.Table) -> None:
    """Write a table; the name appears when the file is on the disk.

    Raises SerializeError.
    """
    content = pa.BufferOutputStream()
    pq.write_table(table, content)
    try:
        OutputFile(path).write(memoryview(content.getvalue()), lasting=True)
    except SerializeError as error:
        raise SerializeError(
            f"{error} The results before are kept. To fix this, make room, and start the same command again: it goes on."
        ) from error
