"""Symbols for sizes, of which torch learns late: its record of symbols takes longer to make than a small model to be read, and
is needed only where torch has to reckon with a size."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo

__all__ = ["Record", "is_open"]

_FIRST = 1000
"""torch's own symbols for the sizes of inputs have smaller numbers."""
_ANY = sys.maxsize - 1
"""torch's upper limit of a size of which nothing is known."""


@functools.lru_cache(maxsize=256)
def _symbol(name: str) -> sympy.Symbol:
    """sympy goes through the assumptions first, each time."""
    return sympy.Symbol(name, integer=True)


class _Late(SymNode):
    """A symbol of ours that may be in no record yet.

    The first question that only the record can answer makes the record, by `env`; the record has the symbol `enter`.
    """

    def __init__(self, expr: sympy.Symbol, env: Callable[[], ShapeEnv], made: Callable[[ShapeEnv, sympy.Symbol], Any]) -> None:
        self._expr = expr
        self._env = env
        self._made_by = made

    @property
    def expr(self) -> Any:
        """The symbol, or what the record knows that it is."""
        return super().expr if "shape_env" in vars(self) else self._expr

    def enter(self, env: ShapeEnv) -> None:
        """Be in torch's record, which knows as much of it as of a symbol that torch has made itself."""
        vars(self).update(vars(self._made_by(env, self._expr).node))

    def __getattr__(self, name: str) -> Any:  # what it has not got yet
        if "shape_env" not in vars(self):
            self._env()
        return object.__getattribute__(self, name)


class Record:
    """torch's record of symbols, and the symbols that wait for it."""

    def __init__(self) -> None:
        self._late: list[_Late] = []
        self._inputs = 0

    @functools.cached_property
    def env(self) -> ShapeEnv:
        """The record, made when it is first asked for."""
        env = ShapeEnv(specialize_zero_one=False, duck_shape=False)
        for late in self._late:
            late.enter(env)
        return env

    def of_input(self, hint: int) -> Any:
        """The size of an input."""
        self._inputs += 1

        def made(env: ShapeEnv, symbol: sympy.Symbol) -> Any:
            env.add_backed_var_to_val(symbol, hint)
            env.constrain_symbol_range(symbol, -int_oo, int_oo)
            env.var_to_sources[symbol] = [ConstantSource(f"__onnxexp_{symbol}")]
            return env.create_symintnode(symbol, hint=hint)

        return self._waiting(f"s{_FIRST + self._inputs - 1}", made)

    def number(self) -> Any:
        """An integer of which nothing is known."""
        return self._unknown(lambda env, _: env.create_unbacked_symint())

    def size(self, limit: int = _ANY) -> Any:
        """A size of which nothing is known but that it is no larger than the limit."""

        def made(env: ShapeEnv, _: sympy.Symbol) -> Any:
            size = env.create_unbacked_symint()
            env._constrain_range_for_size(size.node.expr, max=limit)
            return size

        return self._unknown(made)

    def _unknown(self, made: Callable[[ShapeEnv, sympy.Symbol], Any]) -> Any:
        """A symbol by the name that torch gives it when it enters the record: torch counts them, too."""
        if "env" in vars(self):
            return made(self.env, None)
        return self._waiting(f"u{len(self._late) - self._inputs}", made)

    def _waiting(self, name: str, made: Callable[[ShapeEnv, sympy.Symbol], Any]) -> Any:
        late = _Late(_symbol(name), lambda: self.env, made)
        if "env" in vars(self):
            late.enter(self.env)
        self._late.append(late)
        return torch.SymInt(late)  # type: ignore[no-untyped-call]


def is_open(number: Any) -> bool:
    """Whether a number is a symbol that the record has not got yet."""
    return isinstance(number, torch.SymInt) and isinstance(number.node, _Late) and "shape_env" not in vars(number.node)
