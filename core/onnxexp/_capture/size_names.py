"""Readable names of symbolic sizes, such as ``batch`` or ``(seq + 1)//2``."""

from __future__ import annotations

import itertools
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxexp._neutral_graph import Dim
from onnxexp._request.unique_names import UniqueNames
from onnxexp._symbolic_size import SymbolicSize, symbol, text_of
from onnxexp._user_warnings import warn


class SizeNames(dict[sympy.Expr, str]):
    """The readable names of the symbolic sizes of one capture.

    Symbols without a name are called ``dim_0``, ``dim_1``, …. `size` and `condition` add the names that they make.
    """

    def size(self, size: Any) -> Dim:
        """Return a size of torch's as a number, or as an expression of names."""
        is_symbolic = isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))
        expr = size.node.expr if is_symbolic else sympy.sympify(size, strict=True)
        if expr.is_number:
            return int(expr)
        if expr not in self:
            self._name_new(expr)
            self.setdefault(expr, text_of(expr.xreplace({each: symbol(self[each]) for each in expr.free_symbols})))
        return SymbolicSize(self[expr])

    def condition(self, condition: sympy.Basic) -> str:
        """Return the readable text of a condition on sizes and numbers."""
        self._name_new(condition)
        return text_of(condition.xreplace({each: sympy.Symbol(self[each], integer=True) for each in condition.free_symbols}))

    def unused(self, name: str) -> str:
        """Return an unused name, with a warning where the user gave it to another size."""
        unused = UniqueNames(self.values()).unique(name)
        if unused != name:
            warn(f"two sizes that differ in the example are called {name}; one of them is {unused} in the file")
        return unused

    def _name_new(self, expr: sympy.Basic) -> None:
        """Name the symbols that have no name yet."""
        for each in sorted(expr.free_symbols, key=_order):
            if each not in self:
                used = set(self.values())
                self[each] = next(name for name in (f"dim_{n}" for n in itertools.count()) if name not in used)


def _order(symbol: sympy.Symbol) -> tuple[str, int]:
    """Return a symbol's sort key, its kind and its number, so that u2 precedes u10."""
    kind = symbol.name.rstrip("0123456789")
    return kind, int(symbol.name[len(kind) :] or 0)
