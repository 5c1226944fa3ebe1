"""Find the user's source line and the module of a TorchScript node."""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Mapping
from typing import Any

import torch

from onnxexp.graph import SourceLocation
from onnxexp_torchscript.jit.jit_nodes import outputs

_SCRIPTED = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_MODULE = re.compile(r"(?P<name>[^.()]+)\((?P<kind>[^()]*)\)")
_HERE = "<--- HERE"


def _traced_line(source: str) -> tuple[str, int]:
    """Find the user's file and line in the call stack of a traced node, else "" and 0.

    Without a line of the user, the innermost line in torch.nn counts.
    """
    inner = "", 0
    while source:
        frame, _, source = source.partition("\n")
        place, is_users, is_torch_nn = _frame(frame)
        if is_users:
            return place
        if not inner[0] and is_torch_nn:
            inner = place
    return inner


@functools.lru_cache(maxsize=4096)  # most frames of a trace are those of torch.nn.Module, for each node
def _frame(text: str) -> tuple[tuple[str, int], bool, bool]:
    """Read a line of a call stack.

    Returns file and line, whether they are the user's, and whether they are torch.nn's.
    """
    name, _, number = text.rpartition("): ")[0].rpartition("(")
    if not name or not number.isdigit():
        return ("", 0), False, False
    place = SourceLocation(file=name)
    return (name, int(number)), place.is_user_code, place.is_torch_nn


def _scripted_line(source: str) -> tuple[str, int, str]:
    """Find file, line and code in the source range of a scripted node."""
    found = _SCRIPTED.search(source)
    if found is None:
        return "", 0, ""
    lines = source[found.end() :].split("\n")[1:]
    marked = next((index for index, text in enumerate(lines) if _HERE in text), 0)
    line = int(found["line"])
    code = linecache.getline(found["file"], line).strip()
    return found["file"], line, code or (lines[marked - 1].strip() if marked else "")


class Places:
    """Source locations of the nodes of one graph.

    Args:
        modules: The model's modules, by path.
        root: The path that the capture put before the model's, or "".
        inlined: Whether calls of modules were inlined into the graph.
    """

    def __init__(self, modules: Mapping[str, torch.nn.Module], root: str = "", *, inlined: bool = False) -> None:
        self._modules = modules
        self._root = root
        self._inlined = inlined or bool(root)
        self._known: dict[tuple[str, str, int], SourceLocation] = {}

    def where(self, node: Any) -> SourceLocation:
        """Return the place of a node of a `torch._C.Graph`."""
        hierarchy = node.getModuleHierarchy() if self._inlined else node.scopeName()
        source = node.sourceRange()
        file, line = _traced_line(source)
        key = hierarchy, file or source, line  # long stacks are not kept
        known = self._known.get(key)
        if known is None:
            scope, module = self._scope(hierarchy)
            if file:
                code = linecache.getline(file, line).strip()
            else:
                file, line, code = _scripted_line(source)
            known = self._known[key] = SourceLocation(scope, module, file, line, code)
        return known

    def of(self, node: Any) -> SourceLocation:
        """Return the place of a node; for a node without a line, that of a user of it."""
        own = self.where(node)
        if own.file:
            return own
        users = [use.user for value in outputs(node) for use in value.uses()]
        return next((place for place in map(self.where, users) if place.file), own)

    def _scope(self, hierarchy: str) -> tuple[str, str]:
        """Return the path and the class of a node's module."""
        path = hierarchy.rpartition("/")[2]
        if self._inlined:
            names = [match["name"] for match in _MODULE.finditer(hierarchy)]
            path = ".".join(name for index, name in enumerate(names) if index or name != self._root)
        if not path:
            return "", ""
        return path, type(self._modules[path]).__name__ if path in self._modules else ""
