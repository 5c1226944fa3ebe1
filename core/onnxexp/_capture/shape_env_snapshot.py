"""Snapshot and restore a ShapeEnv, so that a trial leaves no guard behind."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxexp._torch_compat import forget_replacements


class ShapeEnvSnapshot:
    """The containers of a ShapeEnv that a call may change, as they were.

    Attributes:
        replacements: The size that replaced each symbol.
    """

    def __init__(self, env: ShapeEnv) -> None:
        self._env = env
        containers = {name: held for name, held in vars(env).items() if isinstance(held, (dict, list, set))}
        self._containers: dict[str, Any] = {name: copy.copy(held) for name, held in containers.items()}
        self.replacements: dict[sympy.Symbol, sympy.Expr] = self._containers["replacements"]

    def restore(self, *, free: Iterable[sympy.Symbol] = ()) -> None:
        """Restore the ShapeEnv, and clear torch's caches of its decisions.

        Nothing replaces the symbols in `free` any more.
        """
        vars(self._env).update({name: copy.copy(held) for name, held in self._containers.items()})
        for symbol in free:
            del self._env.replacements[symbol]
        forget_replacements(self._env)
        self._env._update_version_counter()
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
