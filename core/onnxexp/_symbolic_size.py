"""Sizes that depend on the inputs, as expressions of the names of axes."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import sympy  # type: ignore[import-untyped]
from sympy.printing.precedence import PRECEDENCE  # type: ignore[import-untyped]
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]

T = TypeVar("T")
Tree: TypeAlias = int | str | tuple[Any, ...]
"""A parsed size: a number, a name, or an operator and its operands as ``("*", 2, "batch")``."""

UNKNOWN = "unknown_dim"
"""Names of unknown sizes start with this in a graph that is built, and with a question mark in a finished model."""

_NAME = re.compile(r"[^\W\d][\w.]*(?!\s*\(|[\w.])")
"""The name of an axis: an identifier, or one with dots (``args.0_dim_1``); not the name of a function."""
_UNKNOWN = re.compile(rf"(?<![\w.])(?:{UNKNOWN}|\?)")
_LONGEST = 10_000
"""Characters of a text that is parsed; torch.export's longest expressions have some hundreds."""
_LARGEST, _LARGEST_EXPONENT = 1 << 128, 64
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.USub: "neg", ast.UAdd: "pos",
}  # fmt: skip


class SymbolicSize:
    """A size that depends on the inputs: an expression such as ``2*batch + 1``.

    Sizes are equal if their texts are, and arithmetic writes a text in one order: ``a*b`` and ``b*a`` both give ``a*b``. A text
    that is no expression, such as ``?1``, has no parts and no value.

    Attributes:
        text: The expression in Python's notation, as in the file. The names of nested inputs have dots: ``past.0_dim_1``.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"SymbolicSize({self.text!r})"

    def __eq__(self, other: object) -> bool:
        """Compare with another size, or with a text."""
        return self.text == (other.text if isinstance(other, SymbolicSize) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: SymbolicSize | int) -> SymbolicSize | int:
        return _combined("+", self, other)

    def __sub__(self, other: SymbolicSize | int) -> SymbolicSize | int:
        return _combined("-", self, other)

    def __rsub__(self, other: int) -> SymbolicSize | int:
        return _combined("-", other, self)

    def __mul__(self, other: SymbolicSize | int) -> SymbolicSize | int:
        return _combined("*", self, other)

    def __floordiv__(self, other: SymbolicSize | int) -> SymbolicSize | int:
        return _combined("//", self, other)

    __radd__, __rmul__ = __add__, __mul__

    @staticmethod
    def smaller(one: SymbolicSize | int, other: SymbolicSize | int) -> SymbolicSize | int:
        """Return the smaller of two sizes, which may be known only at run time."""
        return _combined("min", one, other)

    @staticmethod
    def larger(one: SymbolicSize | int, other: SymbolicSize | int) -> SymbolicSize | int:
        """Return the larger of two sizes, which may be known only at run time."""
        return _combined("max", one, other)

    @property
    def is_unknown(self) -> bool:
        """Whether it depends on a size that is not known."""
        return _UNKNOWN.search(self.text) is not None

    @property
    def is_name(self) -> bool:
        """Whether it is the name of an axis, not an expression of names."""
        return _NAME.fullmatch(self.text) is not None

    def parts(self, sizes: Collection[str]) -> list[str]:
        """Return which of some sizes, given as texts, appear in the expression."""
        known = {tree: text for text in sizes if (tree := parsed(text)) is not None}
        own = parsed(self.text)
        return [] if own is None else list(dict.fromkeys(_found(own, known)))

    def names(self) -> list[str]:
        """Return the names of axes in the expression, none where the text is none."""
        return [] if (tree := parsed(self.text)) is None else list(dict.fromkeys(_leaves(tree)))

    def bound(self, values: Mapping[str, int]) -> SymbolicSize | int:
        """Return the size with numbers in place of these names, simplified."""
        value = self.at(values)
        if value is not None or values.keys().isdisjoint(self.names()):
            return self if value is None else value

        def known(tree: Tree) -> sympy.Expr | None:
            if not isinstance(tree, str):
                return None
            return sympy.Integer(values[tree]) if tree in values else symbol(tree)

        def apply(kind: str, values: Sequence[sympy.Expr]) -> sympy.Expr:
            exact = kind == "/" and all(each.is_Integer for each in values) and values[1] != 0  # torch's gives a float
            return sympy.Rational(*values) if exact else _applied(kind, values)

        expr = evaluate(self.text, known, sympy.Integer, apply)
        return self if expr is None else int(expr) if expr.is_Integer else SymbolicSize(text_of(expr))

    def at(self, values: Mapping[str, int]) -> int | None:
        """Compute the size where others are known, by their texts.

        Returns None where it depends on others too, on a function that is unknown here, or is no whole number.
        """
        known = {parsed(text): Fraction(value) for text, value in values.items()}
        try:
            value = evaluate(self.text, known.get, Fraction, _apply)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            return None
        return int(value) if value is not None and value.denominator == 1 else None


def evaluate(
    text: str, known: Callable[[Tree], T | None], number: Callable[[int], T], apply: Callable[[str, Sequence[T]], T | None]
) -> T | None:
    """Compute an expression in any arithmetic, such as that of a graph's values.

    Args:
        text: The text of the expression.
        known: Returns the value of a part of the expression, a name or a whole term; None computes it from its own parts.
        number: Converts a number.
        apply: Computes an operator (``+ - * / // % **``, ``neg``) or function (``max``, ``floor``); None where it cannot.

    Returns None where a part has no value.
    """
    tree = parsed(text)
    return None if tree is None else _evaluate(tree, known, number, apply)


def _evaluate(
    tree: Tree, known: Callable[[Tree], T | None], number: Callable[[int], T], apply: Callable[[str, Sequence[T]], T | None]
) -> T | None:
    if isinstance(tree, int):
        return number(tree)
    found = known(tree)
    if found is not None or isinstance(tree, str):
        return found
    kind, *operands = tree
    values: list[T] = []
    for operand in operands:
        value = _evaluate(operand, known, number, apply)
        if value is None:
            return None
        values.append(value)
    return apply(kind, values)


def _leaves(tree: Tree) -> Iterator[str]:
    """Yield the names in a tree."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, tuple):
        for operand in tree[1:]:
            yield from _leaves(operand)


def _found(tree: Tree, known: Mapping[Tree, str]) -> Iterator[str]:
    if tree in known:
        yield known[tree]
    elif isinstance(tree, tuple):
        for operand in tree[1:]:
            yield from _found(operand, known)


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Tree | None:
    """Parse a text; return None for one that is no expression.

    The text may come from a file of somebody else. It is never run.
    """
    if len(text) > _LONGEST:
        return None
    names: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        names.append(match[0])
        return f"_{len(names) - 1}"

    try:
        return _tree(ast.parse(_NAME.sub(placeholder, text).strip(), mode="eval").body, names)
    except (LookupError, MemoryError, RecursionError, SyntaxError, ValueError):
        return None


def _tree(node: ast.expr, names: Sequence[str]) -> Tree:
    """Convert Python's tree. Raises LookupError for anything but arithmetic."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[int(node.id[1:])]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)], _tree(node.operand, names)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)], _tree(node.left, names), _tree(node.right, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return node.func.id, *(_tree(each, names) for each in node.args)
    raise LookupError(ast.dump(node))


def _apply(kind: str, values: Sequence[Fraction]) -> Fraction:
    """Compute an operator on numbers.

    Raises LookupError for an unknown function, and ArithmeticError for large numbers.
    """
    value = Fraction(_NUMERIC[kind](*values))
    if abs(value) > _LARGEST:
        raise OverflowError
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if not 0 <= exponent <= _LARGEST_EXPONENT or exponent.denominator != 1:
        raise OverflowError
    return base ** int(exponent)


_NUMERIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": _power, "neg": operator.neg, "pos": operator.pos, "max": max, "min": min, "floor": math.floor, "ceiling": math.ceil,
}  # fmt: skip


def _expression(size: SymbolicSize | int) -> sympy.Expr:
    """Return the expression of a size; a text that is none is one symbol."""
    if isinstance(size, int):
        return sympy.Integer(size)
    expr = evaluate(size.text, lambda tree: symbol(tree) if isinstance(tree, str) else None, sympy.Integer, _applied)
    return symbol(size.text) if expr is None else expr


def _applied(kind: str, values: Sequence[sympy.Expr]) -> sympy.Expr:
    function = _symbolic_functions().get(kind) or sympy.Function(kind, integer=True)
    return sympy.sympify(function(*values), strict=True)


@functools.cache
def _symbolic_functions() -> dict[str, Callable[..., sympy.Expr]]:
    from torch.utils._sympy import functions  # the command line starts without torch

    return {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "**": _symbolic_power, "neg": operator.neg, "pos": operator.pos,
        "/": functions.IntTrueDiv, "//": functions.FloorDiv, "%": functions.PythonMod, "max": sympy.Max, "min": sympy.Min,
        "floor": sympy.floor, "ceiling": sympy.ceiling,
    }  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _combined(kind: str, one: SymbolicSize | int, other: SymbolicSize | int) -> SymbolicSize | int:
    if other == {"*": 1, "+": 0, "-": 0}.get(kind):
        return one
    expr = _applied(kind, [_expression(one), _expression(other)])
    return int(expr) if expr.is_number else SymbolicSize(text_of(expr))


def _symbolic_power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """Raise to a small power; leave a large one as it is.

    A size in a file of somebody else may have one that takes for ever.
    """
    small = exponent.is_Integer and 0 <= exponent <= _LARGEST_EXPONENT and not (base.is_number and abs(base) > _LARGEST)
    return base**exponent if small else sympy.Function("pow", integer=True)(base, exponent)


def symbol(name: str) -> sympy.Symbol:
    """Return the symbol of an axis, which is no negative number."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def text_of(expr: sympy.Basic) -> str:
    """Return the readable text of an expression or condition, in Python's notation."""
    text: str = _Printer().doprint(expr)
    return text


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
