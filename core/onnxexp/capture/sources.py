"""The user's own source line, from what torch records."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import torch

from onnxexp.graph import Where

__all__ = ["where"]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n?(?P<code>[^\n]*)')
_NOT_THE_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)

_GENERATED = "<eval_with_key>"
"""How fx calls the code that it makes: with a number that counts up in the process."""


@functools.lru_cache(maxsize=4096)
def _frame(stack_trace: str) -> tuple[str, int, str]:
    """The innermost frame outside torch and onnxexp; the innermost of all where every frame is theirs."""
    found = [(match["file"], int(match["line"]), match["code"].strip()) for match in _FRAME.finditer(stack_trace)]
    frames = [frame for frame in found if not frame[0].startswith(_GENERATED)]
    own = [frame for frame in frames if not frame[0].startswith(_NOT_THE_USERS)]
    return (own or frames or [("", 0, "")])[-1]


def where(meta: dict[str, Any]) -> Where:
    """The place of an fx node, from its metadata."""
    file, line, code = _frame(meta.get("stack_trace") or "")
    stack = meta.get("nn_module_stack") or {}
    modules = [(path, kind) for key, (path, kind) in stack.items() if not key.startswith("_empty_nn_module_stack")]
    scope, kind = modules[-1] if modules else ("", "")
    name = kind if isinstance(kind, str) else kind.__name__
    return Where(_path(scope), name.rpartition(".")[2], file, line, code)


@functools.lru_cache(maxsize=4096)
def _path(scope: str) -> str:
    """``L['self'].layer.0`` and ``layer.0`` are the same path."""
    return re.sub(r"^L\['self'\]\.?|L__self___?", "", scope)
