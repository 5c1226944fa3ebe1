"""Warnings that name the line that the user wrote."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["warn"]

_PASSED_OVER = {"onnxexp", "torch", "contextlib", "functools", "pluggy"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's own line.

    That is the first frame outside this project, its plugins, torch, and the package that calls this function.
    """
    frame = sys._getframe(1)
    passed_over = {*_PASSED_OVER, _package(frame)}
    level = 2  # `warnings`' number for the caller of this function
    while frame.f_back is not None and ((package := _package(frame)) in passed_over or package.startswith("onnxexp_")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
