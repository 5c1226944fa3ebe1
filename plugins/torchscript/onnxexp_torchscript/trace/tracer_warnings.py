"""The warnings of torch's tracer: what a trace has fixed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.graph import SourceLocation
from onnxexp_torchscript.trace.traced_conversions import traced_conversions


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
