"""Readable names of symbolic sizes, such as ``batch`` or ``(seq + 1)//2``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from sympy.printing.precedence import PRECEDENCE  # type: ignore[import-untyped]
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]

from onnxexp._neutral_graph import Dim
from onnxexp._request.unique_names import UniqueNames
from onnxexp._user_warnings import warn


class SizeNames(dict[sympy.Expr, str]):
    """The readable names of the symbolic sizes of one capture.

    Symbols without a name are called ``dim_0``, ``dim_1``, …. `text` and `condition` add the names that they make.
    """

    def text(self, size: Any) -> Dim:
        """Return a size as a number, or the readable text of a symbolic one."""
        is_symbolic = isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))
        expr = size.node.expr if is_symbolic else sympy.sympify(size, strict=True)
        if expr.is_number:
            return int(expr)
        if expr not in self:
            self._name_new(expr)
            self.setdefault(expr, _text(expr, self, nonnegative=True))
        return self[expr]

    def condition(self, condition: sympy.Basic) -> str:
        """Return the readable text of a condition on sizes and numbers."""
        self._name_new(condition)
        return _text(condition, self)

    def unused(self, name: str) -> str:
        """Return an unused name, with a warning where the user gave it to another size."""
        unused = UniqueNames(self.values()).unique(name)
        if unused != name:
            warn(f"two sizes that differ in the example are called {name}; one of them is {unused} in the file")
        return unused

    def _name_new(self, expr: sympy.Basic) -> None:
        """Name the symbols that have no name yet."""
        for symbol in sorted(expr.free_symbols, key=_order):
            if symbol not in self:
                used = set(self.values())
                self[symbol] = next(name for name in (f"dim_{n}" for n in itertools.count()) if name not in used)


def _text(expr: sympy.Basic, names: Mapping[sympy.Expr, str], **assumptions: bool) -> str:
    readable = {symbol: sympy.Symbol(names[symbol], integer=True, **assumptions) for symbol in expr.free_symbols}
    text: str = _Printer().doprint(expr.xreplace(readable))
    return text


def _order(symbol: sympy.Symbol) -> tuple[str, int]:
    """Return a symbol's sort key, its kind and its number, so that u2 precedes u10."""
    kind = symbol.name.rstrip("0123456789")
    return kind, int(symbol.name[len(kind) :] or 0)


class _Printer(StrPrinter):  # type: ignore[misc]
    """The printer of sympy with torch's size functions in Python's notation."""

    printmethod = "_onnxexp_text"  # torch's functions define "_sympystr", which would take precedence

    def _infix(self, expr: sympy.Expr, sign: str) -> str:
        left, right = (self.parenthesize(arg, PRECEDENCE["Mul"]) for arg in expr.args)
        return f"{left}{sign}{right}"

    _print_FloorDiv = _print_CleanDiv = functools.partialmethod(_infix, sign="//")
    _print_Mod = _print_PythonMod = functools.partialmethod(_infix, sign=" % ")
    _print_IntTrueDiv = functools.partialmethod(_infix, sign="/")

    def _print_ToFloat(self, expr: sympy.Expr) -> str:
        return str(self.doprint(expr.args[0]))

    def _print_Relational(self, expr: sympy.Expr) -> str:
        if expr.lhs.could_extract_minus_sign() and expr.rhs.could_extract_minus_sign():
            expr = expr.reversedsign
        return f"{self.doprint(expr.lhs)} {expr.rel_op} {self.doprint(expr.rhs)}"

    def _joined(self, expr: sympy.Expr, word: str) -> str:
        return str(self.stringify(expr.args, f" {word.lower()} ", PRECEDENCE[word]))

    _print_And = functools.partialmethod(_joined, word="And")
    _print_Or = functools.partialmethod(_joined, word="Or")

    def _print_function(self, expr: sympy.Expr) -> str:
        return f"{type(expr).__name__.lower()}({', '.join(sorted(map(self.doprint, expr.args)))})"

    _print_Max = _print_Min = _print_function
