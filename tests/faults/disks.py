"""Disks that are full, and folders that cannot be written."""

from __future__ import annotations

from .fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = ()
