"""Packages of others: damaged, hostile, slow, numerous."""

from __future__ import annotations

from .fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = ()
