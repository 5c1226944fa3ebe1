"""The list of the files that an export wrote into a folder.

A file that is there as the list describes it belongs to the export. Every other file in the folder is the user's, whether it is
not listed or was changed since.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

MANIFEST = "onnxexp.json"
"""The file with the list, and with what else describes the folder."""
_FILES = "files"
_CHECKED = 1 << 28
"""Bytes of a file that its checksum covers: to read all of a huge one takes as long as to write it."""
_LARGEST_MANIFEST = 1 << 24
_BLOCK = 1 << 20


def write_manifest(folder: str, description: Mapping[str, Any]) -> None:
    """Write the manifest of a complete folder: a description and its files."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    listed = {name: _described(os.path.join(folder, name)) for name in names}
    with open(os.path.join(folder, MANIFEST), "w", encoding="utf-8") as file:
        file.write(json.dumps({**description, _FILES: listed}, indent=2) + "\n")


def users_entries(folder: str) -> set[str]:
    """Return the names of the user's files and folders in a folder."""
    listed = dict(listed_files(folder))
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if not _is_listed(entry, listed)}


def _is_listed(entry: os.DirEntry[str], listed: Mapping[str, Any]) -> bool:
    if entry.name not in listed or not entry.is_file(follow_symlinks=False):
        return False
    if entry.name == MANIFEST:
        return True
    described = listed[entry.name]
    return (
        isinstance(described, dict)
        and described.get("size") == entry.stat(follow_symlinks=False).st_size
        and described == _described(entry.path)
    )


def listed_files(folder: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of the manifest's list, then an entry for the manifest itself.

    Nothing is yielded where the file has no such list.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_MANIFEST:
            return
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)[_FILES]
        yield from listed.items()
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # anyone may have written it
        return
    yield MANIFEST, None


def _described(path: str) -> dict[str, int]:
    checksum = read = 0
    with open(path, "rb") as file:
        while read < _CHECKED and (block := file.read(_BLOCK)):
            checksum, read = zlib.crc32(block, checksum), read + len(block)
        return {"size": os.fstat(file.fileno()).st_size, "crc32": checksum}
