"""The parts of the conformance run.

The parts are PyTorch's operator database, its calls at the borders, and operators on quantized tensors.
"""

from __future__ import annotations

from types import ModuleType

from . import extremes, quantized, samples
from .judging import Result


def part_of(op: str) -> ModuleType:
    """Return the module with an operator's samples; the names differ."""
    if op.startswith(extremes.PREFIX):
        return extremes
    return quantized if "::" in op else samples


def of_part(results: list[Result], part: ModuleType) -> list[Result]:
    """Return the results of one part."""
    return [result for result in results if part_of(result.op) is part]
