"""Warnings that name the line that the user wrote."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn"]

_PASSED_OVER = {"onnxexp", "torch", "contextlib", "functools", "pluggy"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning whose place is the first frame outside this project, its plugins and torch: the call that the user wrote."""
    level, frame = 2, sys._getframe(1)  # 2 is `warnings`' number for the caller of this function
    while frame.f_back is not None and _is_passed_over(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_passed_over(module: str) -> bool:
    package = module.partition(".")[0]
    return package in _PASSED_OVER or package.startswith("onnxexp_")
