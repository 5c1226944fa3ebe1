"""The user's own source line, from what torch records.

torch keeps of a stack the frames that are called ``forward``, so that the lines of other functions are lost. While a model
is captured (`recording`) the innermost frame of the user's is kept instead, whatever it is called.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.export import _trace
from torch.fx.proxy import TracerBase

from onnxexp.capture.torch_state import is_exporting
from onnxexp.errors import CaptureError
from onnxexp.graph import Where

__all__ = [
    "calling_line",
    "code_line",
    "model_error",
    "guards_raise",
    "is_modules",
    "is_users",
    "last_line",
    "place",
    "recording",
    "where",
]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n?(?P<code>[^\n]*)')
_TORCH = os.path.dirname(torch.__file__) + os.sep
_MODULES = os.path.join(_TORCH, "nn") + os.sep
_CALLING = torch.nn.modules.module.__file__
_NOT_THE_USERS = (_TORCH, "torch/", os.path.dirname(os.path.dirname(__file__)) + os.sep, "<")
"""Beside torch and onnxexp: what torch names without its folder, and code without a file, which fx makes."""
_OWN = f"{__name__.partition('.')[0]}."
_TYPED_IN = ("<stdin>", "<ipython-input")
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_PLUGINS = re.compile(r"[\\/]onnxexp_\w+[\\/]")
"""Our plugins call the user's code back while it is captured; that the user's line is in between is what counts."""
_SHOWN = 300
"""How much is shown of each end of a long message."""
_PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")


@functools.lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a file belongs to neither torch, onnxexp nor Python."""
    if file.startswith(_NOT_THE_USERS):
        return file.startswith(_TYPED_IN)
    return not _PLUGINS.search(file) and (not file.startswith(_STDLIB) or bool(_PACKAGES.search(file)))


def is_modules(file: str) -> bool:
    """Whether a file belongs to torch.nn, except the one that calls every module."""
    return file.startswith(_MODULES) and file != _CALLING


def _innermost(frames: list[Any], files: list[str]) -> list[Any]:
    """The innermost frame of the user's, else of one of torch's modules; none where there is neither."""
    own = [frame for frame, file in zip(frames, files, strict=True) if is_users(file)]
    modules = (frame for frame, file in zip(frames, files, strict=True) if is_modules(file))
    return (own or list(modules))[-1:]


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Inside, what this thread captures keeps the one frame of each stack that `where` is after."""
    original = TracerBase._filter_traceback_frames

    def filtered(tracer: TracerBase, stack: traceback.StackSummary) -> traceback.StackSummary:
        if not is_exporting():
            return original(tracer, stack)
        start = max((index for index, frame in enumerate(stack) if frame.filename == _trace.__file__), default=-1)
        inside = stack[start + 1 :]
        return traceback.StackSummary.from_list(_innermost(inside, [frame.filename for frame in inside]))

    TracerBase._filter_traceback_frames = filtered  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = original  # type: ignore[method-assign]


def code_line(file: str, line: int) -> Where:
    """Return a line of a file, with its code."""
    return Where(file=file, line=line, code=linecache.getline(file, line).strip())


def last_line(frames: Iterable[tuple[str, int]]) -> Where:
    """The innermost line of the user's among frames (file, line) from the outside in, else of torch's modules; else no file."""
    stack = list(frames)
    found = _innermost(stack, [file for file, _ in stack])
    return code_line(*found[0]) if found else Where()


def calling_line(frame: FrameType | None) -> Where:
    """The innermost line of the user's between torch.export and a frame that it has called; else no file."""
    while frame is not None and frame.f_code.co_filename != _trace.__file__:
        if is_users(frame.f_code.co_filename):
            return code_line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return Where()


def guards_raise(file: str, line: int) -> bool:
    """Whether a line only guards an exception: an assertion, or an ``if`` before a ``raise``."""
    code = code_line(file, line).code
    if code.startswith("assert ") or "_check(" in code or ": raise " in code:
        return True
    following = (code_line(file, line + step).code for step in range(1, 4))
    return code.endswith(":") and next(filter(None, following), "").startswith("raise ")


def model_error(error: Exception, when: str) -> CaptureError:
    """Create the CaptureError for a model that raises `error` on the example: with the user's line and the cure."""
    line = last_line((frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__))
    at = f"\n  at {line}" if line.file else ""
    return CaptureError(f"{when}: {type(error).__name__}: {_brief(str(error))}; cure: give example inputs that it accepts{at}")


def _brief(message: str) -> str:
    """The beginning and the end of a long message: torch's tracer puts whole tensors between them."""
    return message if len(message) <= 2 * _SHOWN else f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"


@functools.lru_cache(maxsize=4096)
def _frame(stack_trace: str) -> tuple[str, int, str]:
    found = [(match["file"], int(match["line"]), match["code"].strip()) for match in _FRAME.finditer(stack_trace)]
    kept: list[tuple[str, int, str]] = _innermost(found, [file for file, _, _ in found])
    return kept[0] if kept else ("", 0, "")


def where(meta: dict[str, Any]) -> Where:
    """The place of an fx node, from its metadata: the innermost line outside torch and onnxexp, else that of torch's module."""
    file, line, code = _frame(meta.get("stack_trace") or "")
    stack = (meta.get("nn_module_stack") or {}).items()
    modules = [(path, kind) for key, (path, kind) in stack if not key.startswith("_empty_nn_module_stack")]
    scope, kind = modules[-1] if modules else ("", "")
    name = kind if isinstance(kind, str) else kind.__name__
    name = "" if name.startswith(_OWN) else name  # a function as a module
    return Where(_path(scope), name.rpartition(".")[2], file, line, code)


def place(node: torch.fx.Node) -> Where:
    """The place of an fx node; one that torch has made itself (a size, when it is asked for) is where its first user is."""
    own = where(node.meta)
    seen = {node}
    while not own.file and not own.scope and node.users and (node := next(iter(node.users))) not in seen:
        seen.add(node)
        found = where(node.meta)
        if found.file or found.scope:
            return found
    return own


@functools.lru_cache(maxsize=4096)
def _path(scope: str) -> str:
    """``L['self'].layer.0``, ``_export_root.layer.0`` and ``layer.0`` are the same path."""
    return re.sub(r"^(?:L\['self'\]\.?|L__self___?|_export_root\.?)", "", scope)
