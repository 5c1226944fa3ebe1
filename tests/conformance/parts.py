"""The two parts of the run: PyTorch's operator database, and operators on quantized tensors."""

from __future__ import annotations

from types import ModuleType

from . import quantized, samples
from .judging import Result

__all__ = ["of_part", "part_of"]


def part_of(op: str) -> ModuleType:
    """Return the module with an operator's samples: operators on quantized tensors have their namespace in their names."""
    return quantized if "::" in op else samples


def of_part(results: list[Result], part: ModuleType) -> list[Result]:
    """Return the results of one part."""
    return [result for result in results if part_of(result.op) is part]
