"""Other threads, other owners of the model's tensors."""

from __future__ import annotations

from .fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = ()
