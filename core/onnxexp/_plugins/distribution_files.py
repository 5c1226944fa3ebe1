"""The files of an installed distribution, as its metadata lists them."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def editable_source(distribution: Any) -> str:
    """Return the source folder of an editable install, or "" for any other."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        return url2pathname(urlsplit(origin["url"]).path) if origin["dir_info"]["editable"] else ""
    except (ValueError, LookupError, TypeError, AttributeError):  # a damaged file, or another form of it
        return ""


def record_hash(distribution: Any, location: str) -> str:
    """Hash a distribution's present files, or return "" if it has no RECORD.

    RECORD lists the files. Those that differ between installations do not count: those without a hash in RECORD (bytecode, RECORD
    itself), the installer's notes, and scripts, which contain the interpreter's path.
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


def module_spec(module: str, *, namespaces: bool = False) -> ModuleSpec | None:
    """Find a module without an import of its packages and without their finders.

    With `namespaces`, return the first of its packages that is no namespace.
    """
    name, *parts = module.split(".")
    spec = importlib.util.find_spec(name)
    for part in parts:
        if spec is None or (namespaces and spec.origin is not None):
            return spec
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    return spec


def misplaced(module: str, distribution: Any, location: str) -> str:
    """Return a file that an import may run although the distribution lacks it.

    The files of the module's package count, since its code may import each of them. The files of a distribution are those of its
    RECORD, of the source folder of an editable install, or, without both, all below its folder. Returns "" if no file is
    misplaced.
    """
    try:
        spec = module_spec(module, namespaces=True)
    except ValueError:  # somebody has put it into sys.modules, without a place
        return f"the module {module.partition('.')[0]} of sys.modules"
    if spec is None:
        return ""  # its import fails
    record, source = distribution.read_text("RECORD"), editable_source(distribution)
    if source or record is None:
        return next((file for file in _importable(spec) if not is_within(file, source or location)), "")
    root = os.path.realpath(location)
    listed = {os.path.join(root, *row[0].split("/")) for row in csv.reader(record.splitlines()) if row}
    return next((file for file in _importable(spec) if file not in listed), "")


def _importable(spec: ModuleSpec) -> Iterator[str]:
    """Yield a module's file, or all modules of a package, below the resolved parent."""
    places = spec.submodule_search_locations
    if places is None:
        folder, name = os.path.split(spec.origin or "")
        yield os.path.join(os.path.realpath(folder), name)
        return
    for place in {*places, *([os.path.dirname(spec.origin)] if spec.origin is not None else [])}:
        parent, name = os.path.split(os.path.abspath(place))
        for folder, folders, files in os.walk(os.path.join(os.path.realpath(parent), name)):
            links = [each for each in folders if os.path.islink(os.path.join(folder, each))]  # an import follows them
            modules = [
                file for file in files if file.endswith(tuple(all_suffixes())) and os.path.basename(folder) != "__pycache__"
            ]
            yield from (os.path.join(folder, each) for each in sorted([*links, *modules]))


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it, never for the folder ""."""
    root = os.path.realpath(folder)
    return bool(folder) and os.path.commonpath([os.path.realpath(path), root]) == root
