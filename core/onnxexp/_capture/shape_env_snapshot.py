"""Snapshot and restore a ShapeEnv, so that a trial leaves no guard behind."""

from __future__ import annotations

import copy
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxexp._torch_compat import forget_replacements

__all__ = ["clear_caches", "restore_shape_env", "snapshot_shape_env"]


def snapshot_shape_env(env: ShapeEnv) -> dict[str, Any]:
    """Copy the containers of a ShapeEnv that a call may change."""
    return {name: copy.copy(value) for name, value in vars(env).items() if isinstance(value, (dict, list, set))}


def restore_shape_env(env: ShapeEnv, before: dict[str, Any]) -> None:
    """Restore a ShapeEnv, and clear torch's caches of its decisions."""
    vars(env).update(before)
    forget_replacements(env)
    env._update_version_counter()
    clear_caches()


def clear_caches() -> None:
    """Clear torch's caches of conditions, so that it records their effects again."""
    for method in (
        ShapeEnv._inner_evaluate_expr,
        ShapeEnv._maybe_guard_rel,
        ShapeEnv.guard_or_defer_runtime_assert,
        ShapeEnv.constrain_symbol_range,
    ):
        method.cache_clear()
