"""The files of an installed distribution, as its metadata lists them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["editable_source", "record_hash"]


def editable_source(distribution: Any) -> str:
    """Return the source folder of an editable install; "" for any other."""
    origin = distribution.origin
    if origin is None or not vars(vars(origin).get("dir_info") or origin).get("editable"):
        return ""
    return url2pathname(urlsplit(str(origin.url)).path)


def record_hash(distribution: Any, location: str) -> str:
    """Hash a distribution's files in their present state, "" if it has no RECORD.

    RECORD lists the files. Those that differ between installations do not count: those without a hash in RECORD (bytecode,
    RECORD itself), the installer's notes, and scripts, which contain the interpreter's path.
    """
    files = {str(file): file.hash for file in distribution.files or ()}
    if not any(file.endswith(".dist-info/RECORD") for file in files):
        return ""
    kept = sorted(file for file, listed in files.items() if listed is not None and not _of_the_installer(file))
    paths = {file: Path(location, file) for file in kept}
    contents = ((file, path.read_bytes() if path.is_file() else b"") for file, path in paths.items())
    rows = [f"{file},{hashlib.sha256(content).hexdigest()}\n" for file, content in contents]
    return f"sha256:{hashlib.sha256(''.join(rows).encode()).hexdigest()}"


def _of_the_installer(file: str) -> bool:
    return file.startswith("..") or file.endswith((".dist-info/INSTALLER", ".dist-info/REQUESTED", ".dist-info/direct_url.json"))
