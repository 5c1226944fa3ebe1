"""The user's own source line of a TorchScript node, and the module that it belongs to."""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Mapping
from typing import Any

import torch

from onnxexp.capture.sources import is_modules, is_users
from onnxexp.capture.torchscript.nodes import outputs_of
from onnxexp.graph import Where

__all__ = ["Places"]

_TRACED = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): [^\n]*$", re.MULTILINE)
_SCRIPTED = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_MODULE = re.compile(r"(?P<name>[^.()]+)\((?P<kind>[^()]*)\)")
_HERE = "<--- HERE"


@functools.lru_cache(maxsize=8192)
def _line(source: str) -> tuple[str, int, str]:
    """File, line and code of a node's source range: a stack, innermost frame first, or the piece of source that was compiled."""
    file, line = "", 0
    for frame in _TRACED.finditer(source):
        known = is_users(frame["file"])
        if known or (not file and is_modules(frame["file"])):
            file, line = frame["file"], int(frame["line"])
        if known:
            break
    if file:
        return file, line, linecache.getline(file, line).strip()
    found = _SCRIPTED.search(source)
    if found is None:
        return "", 0, ""
    lines = source[found.end() :].split("\n")[1:]
    marked = next((index for index, text in enumerate(lines) if _HERE in text), 0)
    line = int(found["line"])
    code = linecache.getline(found["file"], line).strip()
    return found["file"], line, code or (lines[marked - 1].strip() if marked else "")


class Places:
    """Where the nodes of one captured graph come from.

    `modules` are the model's by their paths, `inlined` says that the nodes come out of calls of modules, `root` is the path that
    the capture put before the model's.
    """

    def __init__(self, modules: Mapping[str, torch.nn.Module], root: str = "", *, inlined: bool = False) -> None:
        self._modules = modules
        self._root = root
        self._inlined = inlined or bool(root)
        self._known: dict[tuple[str, str], Where] = {}

    def where(self, node: Any) -> Where:
        """The place of a node of a `torch._C.Graph`."""
        key = node.getModuleHierarchy() if self._inlined else node.scopeName(), node.sourceRange()
        if key not in self._known:
            scope, module = self._scope(key[0])
            file, line, code = _line(key[1])
            self._known[key] = Where(scope, module, file, line, code)
        return self._known[key]

    def of(self, node: Any) -> Where:
        """The place of a node; of one that the compiler has added, its user's."""
        own = self.where(node)
        if not own.file:
            users = [use.user for value in outputs_of(node) for use in value.uses()]
            own = next((place for place in map(self.where, users) if place.file), own)
        return own

    def _scope(self, hierarchy: str) -> tuple[str, str]:
        """The path and the class of a node's module."""
        path = hierarchy.rpartition("/")[2]
        if self._inlined:
            names = [match["name"] for match in _MODULE.finditer(hierarchy)]
            path = ".".join(name for index, name in enumerate(names) if index or name != self._root)
        return (path, type(self._modules[path]).__name__ if path in self._modules else "") if path else ("", "")
