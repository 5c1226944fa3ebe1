"""A plugin to start from: `create` writes a complete pack, ready to build, test and publish.

What it writes is the example of the repository, `examples/plugin`, under another name: the example's own tests are the
templates' tests.
"""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from onnxexp.errors import OptionError
from onnxexp.plugins.discovery import discover

__all__ = ["create"]

_PROJECT, _PACKAGE = "acme-ops", "acme_ops"
"""The example's names, in its texts and in its paths."""

_FILES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".gitignore",
    ".github/workflows/test.yml",
    f"{_PACKAGE}/__init__.py",
    f"{_PACKAGE}/operators.py",
    f"{_PACKAGE}/symbolics.py",
    f"{_PACKAGE}/py.typed",
    f"tests/test_{_PACKAGE}.py",
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_RUNS = re.compile(r"[-_.]+")
_RESERVED = {
    **dict.fromkeys(sys.stdlib_module_names, "a module of Python's standard library"),
    **dict.fromkeys(("aten", "prim", "prims", "quantized"), "a namespace of torch's own operators"),
    "tests": "where the pack's own tests are",
}


def create(name: str, directory: str | os.PathLike[str]) -> list[Path]:
    """Write a pack: a package with an operator and its symbolics, tests, metadata with the entry point, README, licence, CI.

    Args:
        name: The distribution's name (``my-pack``); the package and the namespace of its operators are ``my_pack``, the plugin
            is ``my-pack``.
        directory: The folder to write it into; it is made where there is none.

    Returns:
        The files written.

    Raises:
        OptionError: the name is no distribution's name or taken, or a file is there already. Nothing is written then, and
            nothing stays of what was written where the disk fails (OSError).
    """
    project, package = _names(name)
    root = Path(directory)
    texts = {root / _renamed(path, project, package): _renamed(text, project, package) for path, text in _templates()}
    for folder in [root, *root.parents]:
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder} is a file; give a folder to write {project} into")
    there = [str(path) for path in texts if os.path.lexists(path)]
    if there:
        raise OptionError(f"nothing is overwritten, and there are already {', '.join(there)}; give another folder")
    _write(texts)
    return list(texts)


def _names(name: str) -> tuple[str, str]:
    """The distribution's normalized name, and the package's. Raises OptionError where one of them cannot be."""
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} is no name for a distribution: letters, digits, and between them '-', '_' and '.', such as my-pack"
        )
    project = _RUNS.sub("-", name).lower()
    package = project.replace("-", "_")
    if not package.isidentifier() or keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise OptionError(f"{name!r}: Python cannot import a package called {package}; begin with a letter, avoid keywords")
    if package in _RESERVED:
        raise OptionError(f"{name!r}: {package} is {_RESERVED[package]}; choose another name, such as {project}-ops")
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:  # without an origin it is a mere folder on the path
        raise OptionError(f"{name!r}: a module {package} is installed already; choose another name, or uninstall it first")
    taken = next((found for found in discover() if found.name == project), None)
    if taken is not None:
        raise OptionError(f"{name!r}: {taken.origin} is installed and brings a plugin {project}; choose another name")
    return project, package


def _renamed(text: str, project: str, package: str) -> str:
    return text.replace(_PROJECT, project).replace(_PACKAGE, package)


def _templates() -> Iterator[tuple[str, str]]:
    """(path, text) of each of the example's files."""
    folder = resources.files("onnxexp.cli") / "templates"
    for path in _FILES:
        yield path, folder.joinpath(*path.split("/")).read_text("utf-8")


def _write(texts: dict[Path, str]) -> None:
    """All files or none: what was made is removed again where one cannot be written."""
    made: list[Path] = []
    try:
        for path, text in texts.items():
            for folder in [folder for folder in reversed(path.parents) if not folder.exists()]:
                folder.mkdir()
                made.append(folder)
            with open(path, "x", encoding="utf-8", newline="\n") as file:
                made.append(path)
                file.write(text)
    except BaseException:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise
