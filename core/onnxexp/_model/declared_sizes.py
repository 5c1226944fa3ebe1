"""The sizes that a model declares as numbers, symbols or expressions of symbols."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

_SYMBOL = re.compile(r"[^\W\d][\w.]*")
"""The name of an axis, also within ``2*batch + 1``: an identifier, or one with dots (``args.0_dim_1``)."""

_LONGEST = 10_000
"""Characters of a size that is evaluated; torch.export's longest expressions have some hundreds."""
_LARGEST, _LARGEST_EXPONENT = 1 << 128, 64


def symbol_values(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the value of each symbol that is the size of an axis of an input."""
    found: dict[str, int] = {}
    for name, sizes in declared.items():
        for size, given in zip(sizes, shapes[name], strict=False):  # the pairs of complex numbers have an axis more
            if _SYMBOL.fullmatch(size):
                found.setdefault(size, given)
    return found


def size_at(size: str, values: Mapping[str, int]) -> int | None:
    """Evaluate a declared size, or return None for unknown symbols and functions.

    The text may come from a file of somebody else. It is read as an arithmetic expression and never run.
    """
    if len(size) > _LONGEST:
        return None
    numbers = _SYMBOL.sub(lambda found: str(values.get(found[0], found[0])), size)
    try:
        value = _value(ast.parse(numbers.strip(), mode="eval").body)
    except (ArithmeticError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return None
    return int(value) if value.denominator == 1 else None


def _value(node: ast.expr) -> Fraction:
    """Compute an expression of integers.

    Raises LookupError for anything else, and OverflowError for large numbers.
    """
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = Fraction(node.value)
    elif isinstance(node, ast.UnaryOp):
        value = _UNARY[type(node.op)](_value(node.operand))
    elif isinstance(node, ast.BinOp):
        value = _BINARY[type(node.op)](_value(node.left), _value(node.right))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        value = Fraction(_FUNCTIONS[node.func.id](*map(_value, node.args)))
    else:
        raise LookupError(ast.dump(node))
    if abs(value) > _LARGEST:
        raise OverflowError
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if not 0 <= exponent <= _LARGEST_EXPONENT or exponent.denominator != 1:
        raise OverflowError
    return base ** int(exponent)


_UNARY: dict[type[ast.unaryop], Callable[[Fraction], Fraction]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda one, other: Fraction(one // other),
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": max, "min": min, "floor": math.floor, "ceiling": math.ceil}


def contradiction(declared: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]]) -> str:
    """Describe the first axis that has another size than the declared one, or "".

    Axes of one name have one size.
    """
    values = symbol_values(declared, shapes)
    for name, sizes in declared.items():
        for axis, (size, given) in enumerate(zip(sizes, shapes[name], strict=False)):
            if (wanted := size_at(size, values)) not in (None, given):
                return f"axis {axis} of input {name} is {size}, which is {wanted} in this call, but it has {given} elements"
    return ""
