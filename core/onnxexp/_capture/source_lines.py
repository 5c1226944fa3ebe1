"""Find the user's source line in the stack traces that torch records.

torch reads all frames of the stack for each node, and keeps only those of functions called ``forward``. During a capture,
`record_user_lines` makes it record the innermost frame of the user's code, in a function of any name, and read no other. To read
them all took a tenth of a capture.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import proxy
from torch.fx.proxy import TracerBase
from torch.utils._traceback import CapturedTraceback

from onnxexp._capture.torch_state import is_exporting, replace_attributes
from onnxexp._errors import CaptureError
from onnxexp._source_location import SourceLocation, is_torch_nn, is_user_code

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n?(?P<code>[^\n]*)')
_TORCH_EXPORT = os.path.join(os.path.dirname(torch.__file__), "export", "_trace.py")
_OWN = f"{__name__.partition('.')[0]}."
_SHOWN = 300
"""The number of characters shown of each end of a long message."""
_FAILS = "the model itself fails on the example inputs"
_ROOT = re.compile(r"^(?:L\['self'\]\.?|L__self___?|_export_root\.?)")
"""torch's prefixes of a module path: ``L['self'].layer.0`` is ``layer.0``."""


def _innermost(frames: Sequence[Any]) -> Any:
    """Return the user's innermost frame (file, ...), else torch.nn's, else None."""
    found = (frame for belongs in (is_user_code, is_torch_nn) for frame in reversed(frames) if belongs(frame[0]))
    return next(found, None)


class _Stack:
    """The user's innermost frame at a moment, as torch's CapturedTraceback has it."""

    def __init__(self, frame: FrameType | None) -> None:
        self._frame = _user_frame(frame)

    def summary(self) -> traceback.StackSummary:
        """Return the frame, or nothing."""
        frame = self._frame
        found = [] if frame is None else [traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)]
        return traceback.StackSummary.from_list(found)


class _Stacks:
    """A class in place of CapturedTraceback, whose own frames other threads get."""

    @staticmethod
    def extract(**options: Any) -> Any:
        """Return the present stack."""
        if is_exporting():
            return _Stack(sys._getframe(1))
        return CapturedTraceback.extract(**options)  # type: ignore[no-untyped-call] # torch annotates nothing there


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the user's innermost frame below torch.export, else torch.nn's."""
    of_torch_nn = None
    for each in frames_below_export(frame):
        file = each.f_code.co_filename
        if is_user_code(file):
            return each
        of_torch_nn = each if of_torch_nn is None and is_torch_nn(file) else of_torch_nn
    return of_torch_nn


def frames_below_export(frame: FrameType | None) -> Iterator[FrameType]:
    """Iterate over a frame and its callers, up to torch.export."""
    while frame is not None and frame.f_code.co_filename != _TORCH_EXPORT:
        yield frame
        frame = frame.f_back


@contextlib.contextmanager
def record_user_lines() -> Iterator[None]:
    """Make torch record the user's innermost frame with each captured node."""
    original = TracerBase._filter_traceback_frames

    def filtered(tracer: TracerBase, stack: traceback.StackSummary) -> traceback.StackSummary:
        return stack if is_exporting() else original(tracer, stack)

    with replace_attributes([(proxy, "CapturedTraceback", _Stacks), (TracerBase, "_filter_traceback_frames", filtered)]):
        yield


def innermost_user_line(frames: Iterable[tuple[str, int]]) -> SourceLocation:
    """Return the innermost line of the user, else of torch.nn, else an empty one."""
    found = _innermost(list(frames))
    return SourceLocation.read(*found) if found is not None else SourceLocation()


def user_line_above(frame: FrameType | None) -> tuple[str, int]:
    """Return the user's innermost file and line below torch.export, else ("", 0)."""
    if interpreted := TracingContext.extract_stack():  # strict mode interprets the user's frames
        return _innermost([(each.filename, each.lineno or 0) for each in interpreted]) or ("", 0)
    found = _user_frame(frame)
    return ("", 0) if found is None or not is_user_code(found.f_code.co_filename) else (found.f_code.co_filename, found.f_lineno)


def model_error(error: Exception, when: str = _FAILS, fix: str = "pass example inputs that it accepts") -> CaptureError:
    """Create the CaptureError for a model that raises `error`, at the user's line."""
    line = innermost_user_line((frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__))
    at, message = f"\n  at {line}" if line.file else "", str(error)
    if isinstance(error, CaptureError):  # one of ours, with its own fix
        return CaptureError(message if "\n  at " in message else f"{message}{at}")
    if len(message) > 2 * _SHOWN:  # torch's tracer prints whole tensors in between
        message = f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"
    if "does not require grad" in message:
        when, fix = "the model computes gradients, which are off in an export", "wrap that part in `with torch.enable_grad():`"
    if "requires grad as a constant" in message:
        when, fix = "the forward uses a parameter that the model does not have", "make it one of the model's, or detach() it"
        message = message.partition(". ")[0]
    return CaptureError(f"{when}: {type(error).__name__}: {message}; to fix this, {fix}{at}")


@functools.lru_cache(maxsize=4096)
def _frame(stack_trace: str) -> tuple[str, int, str]:
    found = [(match["file"], int(match["line"]), match["code"].strip()) for match in _FRAME.finditer(stack_trace)]
    frame: tuple[str, int, str] = _innermost(found) or ("", 0, "")
    return frame


def metadata_location(meta: dict[str, Any]) -> SourceLocation:
    """Return an fx node's location: the user's innermost line, else in torch.nn."""
    file, line, code = _frame(meta.get("stack_trace") or "")
    stack = (meta.get("nn_module_stack") or {}).items()
    modules = [(path, kind) for key, (path, kind) in stack if not key.startswith("_empty_nn_module_stack")]
    scope, kind = modules[-1] if modules else ("", "")
    name = kind if isinstance(kind, str) else kind.__name__
    name = "" if name.startswith(_OWN) else name  # our wrapper of a plain function
    scope = _ROOT.sub("", scope)
    return SourceLocation(scope, name.rpartition(".")[2], file, line, code)


def node_location(node: torch.fx.Node) -> SourceLocation:
    """Return the location of an fx node, else of its first user that has one."""
    following: torch.fx.Node | None = node
    while following is not None:
        found = metadata_location(following.meta)
        if found.file or found.scope:
            return found
        following = next(iter(following.users), None)
    return SourceLocation()
