"""The user's own source line of a TorchScript node, and the module that it belongs to."""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Mapping
from typing import Any

from onnxexp.capture.sources import _innermost
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
    frames = [(match["file"], int(match["line"])) for match in _TRACED.finditer(source)][::-1]
    if frames:
        file, line = (_innermost(frames, [file for file, _ in frames]) or [("", 0)])[0]
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

    `modules` maps the path of each module to the name of its class, `inlined` says that the nodes come out of calls of modules,
    `root` is the path that the capture put before the model's.
    """

    def __init__(self, modules: Mapping[str, str], root: str = "", *, inlined: bool = False) -> None:
        self._modules = modules
        self._root = root
        self._inlined = inlined or bool(root)
        self._scopes: dict[str, tuple[str, str]] = {}

    def where(self, node: Any) -> Where:
        """The place of a node of a `torch._C.Graph`."""
        scope, module = self._scope(node)
        file, line, code = _line(node.sourceRange())
        return Where(scope, module, file, line, code)

    def of(self, node: Any) -> Where:
        """The place of a node; of one that the compiler has added, its user's."""
        own = self.where(node)
        if not own.file:
            users = [use.user for value in outputs_of(node) for use in value.uses()]
            own = next((place for place in map(self.where, users) if place.file), own)
        return own

    def _scope(self, node: Any) -> tuple[str, str]:
        hierarchy = node.getModuleHierarchy() if self._inlined else node.scopeName()
        if hierarchy not in self._scopes:
            self._scopes[hierarchy] = self._read(hierarchy)
        return self._scopes[hierarchy]

    def _read(self, hierarchy: str) -> tuple[str, str]:
        path = hierarchy.rpartition("/")[2]
        if self._inlined:
            names = [match["name"] for match in _MODULE.finditer(hierarchy)]
            path = ".".join(name for index, name in enumerate(names) if index or name != self._root)
        return (path, self._modules.get(path, "")) if path else ("", "")
