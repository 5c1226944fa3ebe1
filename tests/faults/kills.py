"""Processes that end while they write."""

from __future__ import annotations

from .fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = ()
