"""torch's record of symbolic sizes put back to what it was, so that what a trial has decided decides nothing else."""

from __future__ import annotations

import copy
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["forget", "restore", "saved"]


def saved(env: ShapeEnv) -> dict[str, Any]:
    """What a call may change of a record."""
    return {name: copy.copy(value) for name, value in vars(env).items() if isinstance(value, (dict, list, set))}


def restore(env: ShapeEnv, before: dict[str, Any]) -> None:
    """Put a record back, and what torch remembers beside it."""
    vars(env).update(before)
    env._replacements_version_counter += 1
    env._update_version_counter()
    forget()


def forget() -> None:
    """What torch remembers to have decided it decides again, with a guard."""
    ShapeEnv._inner_evaluate_expr.cache_clear()
