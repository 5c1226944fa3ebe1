"""Emit warnings at the line of the user's call."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

_SKIPPED_PACKAGES = {"onnxexp", "torch", "contextlib", "functools", "pluggy"}

_HELD: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("_HELD", default=None)


@contextlib.contextmanager
def hold_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect warnings, and emit on exit those that are still in the list.

    A caller removes the warnings of an attempt that it discards.
    """
    held: list[tuple[str, type[Warning]]] = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)
        for message, category in held:
            warn(message, category)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning at the first frame outside onnxexp, plugins and torch.

    The frames of the calling package are skipped, too.
    """
    if (held := _HELD.get()) is not None:
        held.append((message, category))
        return
    frame = sys._getframe(1)
    skipped = {*_SKIPPED_PACKAGES, _package(frame)}
    level = 2  # the stacklevel of this function's caller
    while frame.f_back is not None and ((package := _package(frame)) in skipped or package.startswith("onnxexp_")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
