"""Find the user's source line in the stack traces that torch records.

torch keeps only frames of functions called ``forward``. During a capture, `record_user_lines` makes it keep the innermost frame
of the user's code, in a function of any name.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import linecache
import os
import re
import sysconfig
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx.proxy import TracerBase

from onnxexp._capture.torch_state import is_exporting, replace_attributes
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import SourceLocation

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n?(?P<code>[^\n]*)')
_TORCH = os.path.dirname(torch.__file__) + os.sep
_BESIDE_TORCH = os.path.dirname(_TORCH[:-1]) + os.sep
_TORCH_EXPORT = os.path.join(_TORCH, "export", "_trace.py")
_MODULES = os.path.join(_TORCH, "nn") + os.sep
_CALLING = torch.nn.modules.module.__file__
_NOT_THE_USERS = (_TORCH, "torch/", os.path.dirname(os.path.dirname(__file__)) + os.sep, "<")
"""torch and onnxexp; files that torch names without their folder; code without a file, which fx generates."""
_OWN = f"{__name__.partition('.')[0]}."
_TYPED_IN = ("<stdin>", "<ipython-input")
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_PLUGINS = re.compile(r"[\\/]onnxexp_\w+[\\/]")
"""Our plugins call the user's code during a capture; their frames are never the user's."""
_SHOWN = 300
"""The number of characters shown of each end of a long message."""
_CONDITION = 8
"""The number of lines that a condition is taken to have at most."""
_MESSAGES = {"warn", "warn_once", "warning", "warning_once", "info", "debug", "print"}
_FAILS = "the model itself fails on the example inputs"
_ROOT = re.compile(r"^(?:L\['self'\]\.?|L__self___?|_export_root\.?)")
"""torch's prefixes of a module path: ``L['self'].layer.0`` is ``layer.0``."""
_PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")


@functools.lru_cache(maxsize=4096)
def is_user_code(file: str) -> bool:
    """Return whether a file belongs to neither torch, onnxexp nor Python's library."""
    if file.startswith(_NOT_THE_USERS):
        return file.startswith(_TYPED_IN)
    return not _PLUGINS.search(file) and (not file.startswith(_STDLIB) or bool(_PACKAGES.search(file)))


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package, as torch does."""
    return file.startswith(_BESIDE_TORCH) or bool(_PACKAGES.search(file))


def is_torch_nn(file: str) -> bool:
    """Return whether a file is torch.nn's, but not the one that calls every module."""
    return file.startswith(_MODULES) and file != _CALLING


def _innermost(frames: Sequence[Any]) -> Any:
    """Return the user's innermost frame (file, ...), else torch.nn's, else None."""
    found = (frame for belongs in (is_user_code, is_torch_nn) for frame in reversed(frames) if belongs(frame[0]))
    return next(found, None)


@contextlib.contextmanager
def record_user_lines() -> Iterator[None]:
    """Make torch record the user's innermost frame with each captured node."""
    original = TracerBase._filter_traceback_frames

    def filtered(tracer: TracerBase, stack: traceback.StackSummary) -> traceback.StackSummary:
        if not is_exporting():
            return original(tracer, stack)
        start = max((index for index, frame in enumerate(stack) if frame.filename == _TORCH_EXPORT), default=-1)
        frame = _innermost(stack[start + 1 :])
        return traceback.StackSummary.from_list([frame] if frame is not None else [])

    with replace_attributes([(TracerBase, "_filter_traceback_frames", filtered)]):
        yield


def code_line(file: str, line: int) -> SourceLocation:
    """Return a line of a file with its source text."""
    return SourceLocation(file=file, line=line, code=linecache.getline(file, line).strip())


def innermost_user_line(frames: Iterable[tuple[str, int]]) -> SourceLocation:
    """Return the innermost line of the user, else of torch.nn, else an empty one."""
    found = _innermost(list(frames))
    return code_line(*found) if found is not None else SourceLocation()


def user_line_above(frame: FrameType | None) -> SourceLocation:
    """Return the user's innermost line below torch.export, else an empty location."""
    if interpreted := TracingContext.extract_stack():  # strict mode interprets the user's frames
        return innermost_user_line((each.filename, each.lineno or 0) for each in interpreted)
    while frame is not None and frame.f_code.co_filename != _TORCH_EXPORT:
        if is_user_code(frame.f_code.co_filename):
            return code_line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return SourceLocation()


@functools.lru_cache(maxsize=4096)
def only_raises_or_warns(file: str, line: int) -> bool:
    """Return whether a line is an assertion, or an ``if`` that only raises or warns."""
    code = code_line(file, line).code
    if code.startswith("assert ") or "_check(" in code:
        return True
    lines = linecache.getlines(file)
    for start in range(line - 1, max(line - 1 - _CONDITION, -1), -1):  # the condition may have several lines
        if "".join(lines[start : start + 1]).lstrip().startswith(("if ", "if(", "elif ")):
            body, has_else = _branch(lines[start:], line - 1 - start)
            return bool(body) and (isinstance(body[-1], ast.Raise) or (not has_else and all(map(_warns, body))))
    return False


def _branch(lines: Sequence[str], place: int) -> tuple[list[ast.stmt], bool]:
    """Return the statements of the first line's ``if``, and whether it has an else.

    There are none where the line at `place` is not in its condition.
    """
    indents = [len(line) - len(line.lstrip()) for line in lines]
    following = zip(lines[1:], indents[1:], strict=True)
    within = itertools.takewhile(lambda each: each[1] > indents[0] or each[0].lstrip()[:1] in ("", "#", ")"), following)
    block = [*lines[:1], *(line for line, _ in within)]
    try:
        [statement] = ast.parse(textwrap.dedent("".join(block)).removeprefix("el")).body
    except (SyntaxError, ValueError):  # the first line is within a statement
        return [], False
    if not isinstance(statement, ast.If) or place >= (statement.test.end_lineno or 0):
        return [], False
    return statement.body, "".join(lines[len(block) : len(block) + 1]).lstrip().startswith(("else", "elif"))


def _warns(statement: ast.stmt) -> bool:
    """Return whether a statement only calls a function that shows a message."""
    function = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return isinstance(function, (ast.Name, ast.Attribute)) and ast.unparse(function).rpartition(".")[2] in _MESSAGES


def model_error(error: Exception, when: str = _FAILS, cure: str = "pass example inputs that it accepts") -> CaptureError:
    """Create the CaptureError for a model that raises `error`, at the user's line."""
    line = innermost_user_line((frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__))
    at, message = f"\n  at {line}" if line.file else "", str(error)
    if isinstance(error, CaptureError):  # one of ours, with its own cure
        return CaptureError(message if "\n  at " in message else f"{message}{at}")
    if len(message) > 2 * _SHOWN:  # torch's tracer prints whole tensors in between
        message = f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"
    if "does not require grad" in message:
        when, cure = "the model computes gradients, which are off in an export", "wrap that part in `with torch.enable_grad():`"
    if "requires grad as a constant" in message:
        when, cure = "the forward uses a parameter that the model does not have", "make it one of the model's, or detach() it"
        message = message.partition(". ")[0]
    return CaptureError(f"{when}: {type(error).__name__}: {message}; to fix this, {cure}{at}")


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
