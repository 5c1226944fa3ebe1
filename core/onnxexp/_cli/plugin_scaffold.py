"""Create a plugin from a template, ready to build, test and publish.

The template is the repository's example, `examples/plugin`, under another name. The example's own tests cover it.
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

from onnxexp._errors import OptionError
from onnxexp._plugins.discovery import discover

_PROJECT, _PACKAGE = "acme-ops", "acme_ops"
"""The example's names, replaced in its texts and paths."""

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
    "tests": "the folder of the plugin's own tests",
}


def create(name: str, directory: str | os.PathLike[str]) -> list[Path]:
    """Write a plugin: operator, symbolics, tests, metadata, README, licence and CI.

    Args:
        name: The distribution's and the plugin's name (``my-plugin``); the package and the namespace of its operators are
            ``my_pack``.
        directory: The folder to write into; created if missing.

    Returns:
        The files written.

    Raises:
        OptionError: The name is invalid or taken, or a file exists already. Nothing is written.
        OSError: The disk failed. The files written so far are removed.
    """
    project, package = _names(name)
    root = Path(directory)
    texts = {root / _renamed(path, project, package): _renamed(text, project, package) for path, text in _templates()}
    write_new(root, texts, project)
    return list(texts)


def write_new(root: Path, texts: dict[Path, str], what: str) -> None:
    """Write new files below a folder, all or none.

    Raises OptionError where a file exists already, and OSError where the disk fails.
    """
    for folder in [root, *root.parents]:
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"{folder} is a file; choose a folder to write {what} into")
    existing = [str(path) for path in texts if os.path.lexists(path)]
    if existing:
        raise OptionError(f"files are never overwritten, and these exist already: {', '.join(existing)}; choose another folder")
    _write(texts)


def _names(name: str) -> tuple[str, str]:
    """Return the normalized name of the distribution, and the name of the package.

    Raises OptionError if a name is invalid or taken.
    """
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} is no valid name for a distribution: use letters, digits, and between them -, _ and ., as in my-plugin"
        )
    project = _RUNS.sub("-", name).lower()
    package = project.replace("-", "_")
    if not package.isidentifier() or keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise OptionError(f"{name!r}: Python cannot import a package called {package}; begin with a letter, avoid keywords")
    if package in _RESERVED:
        raise OptionError(f"{name!r}: {package} is {_RESERVED[package]}; choose another name, such as {project}-ops")
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:  # without an origin it is a plain folder on the path
        raise OptionError(f"{name!r}: a module {package} is installed already; choose another name, or uninstall it first")
    taken = next((found for found in discover() if found.name == project), None)
    if taken is not None:
        raise OptionError(f"{name!r}: {taken.origin} is installed and has a plugin {project}; choose another name")
    return project, package


def _renamed(text: str, project: str, package: str) -> str:
    return text.replace(_PROJECT, project).replace(_PACKAGE, package)


def _templates() -> Iterator[tuple[str, str]]:
    """Yield (path, text) of each file of the example."""
    folder = resources.files("onnxexp._cli") / "templates"
    for path in _FILES:
        yield path, folder.joinpath(*path.split("/")).read_text("utf-8")


def _write(texts: dict[Path, str]) -> None:
    """Write all files or none, and remove the others if one fails."""
    created: list[Path] = []
    try:
        for path, text in texts.items():
            for folder in [folder for folder in reversed(path.parents) if not folder.exists()]:
                folder.mkdir()
                created.append(folder)
            with open(path, "x", encoding="utf-8", newline="\n") as file:
                created.append(path)
                file.write(text)
    except BaseException:
        for path in reversed(created):
            path.rmdir() if path.is_dir() else path.unlink()
        raise
