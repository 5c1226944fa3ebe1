"""Symbols for the dynamic sizes of inputs, of which torch learns late: its record of symbols takes longer to make than a small
model to be read, and is needed only where torch has to reckon with a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo

__all__ = ["Late"]

_FIRST = 1000
"""torch's own symbols have smaller numbers."""


class Late(SymNode):
    """A symbol of ours that may be in no record yet.

    The first question that only the record can answer makes the record, by `env`; the record has the symbol `enter`.
    """

    def __init__(self, number: int, hint: int, env: Callable[[], ShapeEnv]) -> None:
        self._expr = sympy.Symbol(f"s{_FIRST + number}", integer=True)
        self._size = hint
        self._env = env

    @property
    def expr(self) -> Any:
        """The symbol, or what the record knows that it is."""
        return super().expr if "shape_env" in vars(self) else self._expr

    def enter(self, env: ShapeEnv) -> None:
        """Be in torch's record, which knows as much of it as of a symbol that torch has made for a size of an input."""
        env.add_backed_var_to_val(self._expr, self._size)
        env.constrain_symbol_range(self._expr, -int_oo, int_oo)
        env.var_to_sources[self._expr] = [ConstantSource(f"__onnxexp_{self._expr}")]
        known: Any = env.create_symintnode(self._expr, hint=self._size)
        vars(self).update(vars(known.node))

    def __getattr__(self, name: str) -> Any:  # what it has not got yet
        if "shape_env" not in vars(self):
            self._env()
        return object.__getattribute__(self, name)
