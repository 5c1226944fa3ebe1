"""The warnings of torch's tracer: what a trace has fixed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from onnxexp.frontends import replace_attributes
from onnxexp.graph import SourceLocation
from onnxexp_torchscript.trace.traced_conversions import traced_conversions


@contextlib.contextmanager
def recorded_warnings(record: list[Any]) -> Iterator[None]:
    """Append all warnings to `record`.

    Those in redirected calls get the line of the call.
    """

    def show(message: Any, category: Any, filename: str, lineno: int, *_: Any) -> None:
        if filename in {frame.f_code.co_filename for frame in _own_frames()}:
            filename, lineno = calling_line()
        record.append(warnings.WarningMessage(message, category, filename, lineno))

    with warnings.catch_warnings(), replace_attributes([(warnings, "showwarning", show)]):
        warnings.simplefilter("always")
        yield


def calling_line() -> tuple[str, int]:
    """Return the file and line of the innermost call outside of onnxexp.

    onnxexp's frames redirect torch's functions.
    """
    frame = [*_own_frames()][-1].f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def _own_frames() -> Iterator[FrameType]:
    """Iterate over the innermost frames of onnxexp and Python's warnings."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_own(frame.f_globals.get("__name__", "").partition(".")[0]):
        yield frame
        frame = frame.f_back


def _is_own(package: str) -> bool:
    return package in ("onnxexp", "warnings") or package.startswith("onnxexp_")


def tracer_warnings(caught: list[Any]) -> list[Any]:
    """Select the tracer's warnings; issue all others but deprecations again."""
    recorded = []
    for warning in caught:
        if issubclass(warning.category, torch.jit._trace.TracerWarning):
            recorded.append(warning)
        elif not issubclass(warning.category, (DeprecationWarning, FutureWarning)):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return recorded


def further_attempts(recorded: Sequence[Any]) -> list[dict[str, Any]]:
    """List the options of traces that keep what the tracer has warned of."""
    conversions = traced_conversions(recorded)
    attempts = [{"conversions": conversions}] if conversions else []
    branching = any(str(each.message).startswith("Converting a tensor to a Python boolean") for each in recorded)
    return [*attempts, {"conversions": conversions, "branching": True}] if branching else attempts


def fixed_places(recorded: Sequence[Any]) -> list[str]:
    """List what the trace has fixed, each with the user's source line."""
    places: dict[str, None] = {}
    for warning in recorded:
        text = str(warning.message).partition(". ")[0].partition(" might cause")[0]
        if text.endswith("registered as constants in the trace"):
            continue  # of numbers; those that were read from a tensor have a warning where that is
        where = SourceLocation.read(warning.filename, warning.lineno)
        if not where.only_raises_or_warns:  # a check, which the example has passed
            places[f"{text} at {where}"] = None
    return list(places)
