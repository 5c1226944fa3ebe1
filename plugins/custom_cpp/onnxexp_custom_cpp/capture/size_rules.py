"""Trace an output size back to the symbolic sizes of the inputs.

It is known at several sets of input sizes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37), (37, 31, 29, 23, 19, 17, 13, 11))
_STEPS = ((2, 4, 6, 8, 10, 12, 14, 16), (6, 2, 10, 4, 14, 8, 16, 12))
"""Multiples of the example's sizes, for kernels that take only some sizes."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A size, in terms of the inputs' sizes.

    Attributes:
        size: A number, or a symbolic size.
        texts: The possible rules as text; the first is `size`.
    """

    size: Any
    texts: tuple[str, ...]

    @property
    def others(self) -> bool:
        """Whether other rules give the same numbers."""
        return len(self.texts) > 1


def substitutions(sizes: Sequence[Any]) -> list[Callable[[Any], int]]:
    """Functions from a symbolic size to a number: the example's, then other sets.

    Each other set gives every symbol its own number.
    """
    if not sizes:
        return [int]
    hints = sizes[0].node.shape_env.backed_var_to_val
    symbols = sorted({symbol for size in sizes for symbol in size.node.expr.free_symbols}, key=str)
    example = {symbol: int(hints.get(symbol, 2)) for symbol in symbols}
    points = [example]
    for primes, steps in zip(_PRIMES, _STEPS, strict=True):
        points.append({symbol: primes[index % 8] for index, symbol in enumerate(symbols)})
        points.append({symbol: example[symbol] * steps[index % 8] for index, symbol in enumerate(symbols)})
    return [_substitute(point) for point in points]


def _substitute(point: dict[Any, int]) -> Callable[[Any], int]:
    def number(size: Any) -> int:
        return int(size.node.expr.xreplace(point)) if hasattr(size, "node") else int(size)

    return number


def rule_for(values: Sequence[int], sizes: Sequence[Any], points: Sequence[Callable[[Any], int]]) -> Rule | None:
    """Find the rule of an output size with these values at these points, or None.

    A number, an input's size, and one that differs from an input's size by a number or a factor are tried before sums and
    products of two. Of one kind, several may fit: where the kernel runs at few sizes, or two sizes are equal.
    """
    distinct = list({str(size): size for size in sizes}.values())
    known = [(size, [point(size) for point in points]) for size in distinct]
    if len(set(values)) == 1 and (len(values) > 1 or not known):
        return Rule(values[0], (str(values[0]),))
    if len(values) == 1:
        fitting = [size for size, numbers in known if numbers[0] == values[0]]
        if not fitting:
            return Rule(values[0], (str(values[0]), "a size that follows from the inputs'"))
        return Rule(fitting[0], (*map(str, fitting), str(values[0])))
    for kind in (_affine, _pairs):
        fitting = list({str(size): size for size in kind(values, known)}.values())
        if fitting:
            return Rule(fitting[0], tuple(map(str, fitting)))
    return None


def _affine(values: Sequence[int], known: Sequence[tuple[Any, list[int]]]) -> Iterator[Any]:
    """Sizes ``a * size + b`` or ``size // a``."""
    for size, numbers in known:
        pairs = sorted(set(zip(numbers, values, strict=True)))
        if len({number for number, _ in pairs}) < 2 or len({number for number, _ in pairs}) < len(pairs):
            continue
        (x0, y0), (x1, y1) = pairs[0], pairs[-1]
        factor, rest = divmod(y1 - y0, x1 - x0)
        if rest == 0 and factor > 0 and all(factor * x + y0 - factor * x0 == y for x, y in pairs):
            yield size * factor + (y0 - factor * x0)
            continue
        for divisor in (2, 3, 4, 5, 8, 16, 32):
            for shift in range(-2 * divisor, 2 * divisor):
                if all((x + shift) // divisor == y for x, y in pairs):
                    yield (size + shift) // divisor


def _pairs(values: Sequence[int], known: Sequence[tuple[Any, list[int]]]) -> Iterator[Any]:
    """Yield sums and products of two sizes."""
    for (one, first), (other, second) in itertools.combinations(known, 2):
        if all(x + y == value for x, y, value in zip(first, second, values, strict=True)):
            yield one + other
        if all(x * y == value for x, y, value in zip(first, second, values, strict=True)):
            yield one * other
