"""Examples at other sizes than the user's, and with other dynamic numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp.frontends import Axis, DynamicSpec, resize_example
from onnxexp_torchscript.types.abstract_tensor import expr_of
from onnxexp_torchscript.types.type_inference import TypeInference

_SMALL = 4
"""Larger sizes shrink where that is possible, so that the second trace costs less than the first."""
_WINDOW = 8
"""A window that models have, with larger ones: sizes up to it grow, so that a number of windows differs."""
_SHIFT = 3
_MOST = 64
"""The largest ratio of elements of an example that only grows to be no smaller on any axis."""
_ATTEMPTS = 4
"""How many choices of sizes are tried until sums stay sums."""


@dataclasses.dataclass(frozen=True)
class OtherSizes:
    """An example of the model's call at other sizes.

    Attributes:
        example: The leaves of the call.
        text: These sizes as text.
    """

    example: list[Any]
    text: str


@dataclasses.dataclass(frozen=True)
class AxisLengths:
    """The lengths of the dynamic axes, as expressions of free sizes.

    Attributes:
        lengths: By leaf and axis: equal expressions where the model needs equal axes, a sum where it needs a sum.
        example: The example's value of each symbol.
    """

    lengths: Mapping[tuple[int, int], sympy.Expr]
    example: Mapping[sympy.Symbol, int]

    def at(self, values: Mapping[sympy.Symbol, int]) -> dict[tuple[int, int], int]:
        """Return the lengths at these sizes."""
        at = {symbol: sympy.Integer(value) for symbol, value in values.items()}
        return {place: int(expr.xreplace(at)) for place, expr in self.lengths.items()}

    def equal_in_example(self) -> dict[sympy.Symbol, sympy.Symbol]:
        """Map lengths of axes to the first other one that is equal in the example."""
        first: dict[int, sympy.Symbol] = {}
        symbols = dict.fromkeys(expr for expr in self.lengths.values() if expr.is_Symbol)
        pairs = ((symbol, first.setdefault(self.example[symbol], symbol)) for symbol in symbols)
        return {symbol: other for symbol, other in pairs if symbol is not other}

    def tied(self, ties: Mapping[sympy.Symbol, sympy.Symbol]) -> AxisLengths:
        """Return the lengths where symbols are equal to others."""
        lengths = {place: expr.xreplace(ties) for place, expr in self.lengths.items()}
        return AxisLengths(lengths, {symbol: value for symbol, value in self.example.items() if symbol not in ties})


def axis_lengths(sizes: TypeInference) -> AxisLengths:
    """Return the lengths of the inputs' dynamic axes, as the program needs them."""
    lengths: dict[tuple[int, int], sympy.Expr] = {}
    for (index, axis), size in sizes.inputs.items():
        expr = sizes.expanded(expr_of(size))
        if axis is not None and not expr.is_number:
            lengths[index, axis] = size.node._expr if free_unbacked_symbols(expr) else expr
    used = {symbol for expr in lengths.values() for symbol in expr.free_symbols}
    known = sizes.env.backed_var_to_val if used else {}
    return AxisLengths(lengths, {symbol: int(size) for symbol, size in known.items() if symbol in used})


@dataclasses.dataclass
class _Size:
    """A dynamic size: its value in the example, and its bounds."""

    value: int
    low: int = 1
    high: int | None = None

    def allows(self, value: int) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)


def other_sizes(spec: DynamicSpec, example: Sequence[Any], axes: AxisLengths, opposite: bool = False) -> Iterator[OtherSizes]:
    """Yield examples at other sizes, the most general first.

    First, every size changes; then sizes keep their powers of two, their differences or their ratios. Every dynamic number is
    another one, too. Nothing is yielded where no axis and no number is dynamic.

    With `opposite`, the examples have the smallest size where the largest was: ``max(n, m)`` is the other one there. The first
    has the smallest sizes that differ, since it costs a third trace. The last has no smaller sizes than the user's, where that
    takes no more than 64 times as many elements.
    """
    sizes = _sizes(spec, axes)
    given = {index: example[index] for index, wanted in spec.scalars.items() if wanted.required}
    seen = [([size.value for size in sizes.values()], given)]
    shapes = [(leaf.shape, axes) for leaf, axes in zip(example, spec.axes, strict=True) if isinstance(leaf, torch.Tensor)]
    one_new = any(length == 1 and axis not in axes for shape, axes in shapes for axis, length in enumerate(shape))
    for attempt, values in enumerate(_choices(list(sizes.values()), one_new, opposite)):
        numbers = {index: _NUMBER_CHANGES[attempt % 2](number) for index, number in given.items()}
        lengths = axes.at(dict(zip(sizes, values, strict=True)))
        allowed = all(_limits(spec.axes[index][axis]).allows(length) for (index, axis), length in lengths.items())
        if (values, numbers) not in seen and allowed:
            seen.append((values, numbers))
            if attempt or not opposite:
                yield _example(spec, example, lengths, numbers)


def _choices(sizes: Sequence[_Size], one_new: bool, opposite: bool) -> Iterator[list[int]]:
    apart = _apart(sizes, one_new)
    yield apart
    if opposite:
        own = [size.value for size in sizes]
        if len(own) > 1:
            yield _reversed(own, _apart(sizes, one_new, apart))
        turned = _reversed(own, apart)
        yield turned
        factor = max((-(-one // other) for one, other in zip(own, turned, strict=True)), default=1)
        if len(own) > 1 and math.prod(factor * other for other in turned) <= _MOST * math.prod(own):
            yield [factor * other for other in turned]
    else:
        yield from ([change(size.value) for size in sizes] for change in _CHANGES)


def _reversed(own: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return other sizes in the opposite order of the example's; sums stay sums."""
    order = sorted(range(len(own)), key=lambda index: (own[index], other[index]))
    sums: dict[int, tuple[int, int]] = {}
    for place, index in enumerate(order):
        pairs = itertools.combinations(order[:place], 2)
        kept = [(a, b) for a, b in pairs if all(each[a] + each[b] == each[index] for each in (own, other))]
        sums |= {index: kept[0]} if kept else {}
    free = [index for index in order if index not in sums]
    values = dict(zip(free, sorted((other[index] for index in free), reverse=True), strict=True))
    for index in filter(sums.__contains__, order):
        values[index] = sum(values[term] for term in sums[index])
    return [values[index] for index in range(len(own))]


def _sizes(spec: DynamicSpec, axes: AxisLengths) -> dict[sympy.Symbol, _Size]:
    """Return the free sizes by their symbols, within the bounds of their axes."""
    sizes = {symbol: _Size(value) for symbol, value in axes.example.items()}
    for (index, axis), expr in axes.lengths.items():
        if len(expr.free_symbols) == 1:
            (symbol,) = expr.free_symbols
            offset, step = expr.xreplace({symbol: sympy.Integer(0)}), expr.coeff(symbol)
            if expr == step * symbol + offset and step > 0:
                limits, size = _limits(spec.axes[index][axis]), sizes[symbol]
                size.low = max(size.low, int(-((offset - limits.low) // step)))
                highs = [] if limits.high is None else [int((limits.high - offset) // step)]
                size.high = min([*highs, *([] if size.high is None else [size.high])], default=None)
    return sizes


def _limits(wanted: Axis) -> _Size:
    """Return the least and the largest length of an axis."""
    derived = wanted.derived
    bounds = vars(vars(wanted.dim).get("root", wanted.dim))  # also Dim.DYNAMIC(min=..., max=...)
    high = bounds.get("max")
    low, high = bounds.get("min") or 1, high if isinstance(high, int) else None
    if derived is None:
        return _Size(0, max(2, low), high)
    _, function = derived
    return _Size(0, function(max(low, 1)), None if high is None else function(high))


def _apart(sizes: Sequence[_Size], one_new: bool, tried: Sequence[int] = ()) -> list[int]:
    """Change every size, so that no two are equal and sums stay sums.

    After those `tried`, the smallest others above 2 are taken.
    A mask of ``past + new`` positions, or ``past + 1``, stays one: a model that checks it takes another branch for any other.
    Large sizes make up for the growth of small ones: 2 x 16 becomes 4 x 7, with no more elements.
    """
    attempts = [_changed(sizes, one_new, skipped, tried) for skipped in range(_ATTEMPTS)]
    return next((values for values, sums_kept in attempts if sums_kept), attempts[0][0])


def _changed(sizes: Sequence[_Size], one_new: bool, skipped: int, tried: Sequence[int]) -> tuple[list[int], bool]:
    """Change every size, and pass over the first `skipped` candidates for each.

    Also returns whether sums stay sums.
    """
    taken = {*tried, *(size.value for size in sizes)}
    values: dict[int, int] = {}
    order = sorted(range(len(sizes)), key=lambda index: sizes[index].value)
    growth, sums_kept = 1.0, True
    for place, index in enumerate(order):
        size = sizes[index]
        smaller = [(sizes[one].value, values[one]) for one in order[:place]]
        sums = [b + d for (a, b), (c, d) in itertools.combinations(smaller, 2) if a + c == size.value]
        sums += [new + 1 for old, new in smaller if one_new and size.value == old + 1]
        near = (_above(size.low) if tried else _near(size.value, growth))[skipped:]
        values[index] = next((value for value in (*sums, *near) if value not in taken and size.allows(value)), size.value)
        sums_kept = sums_kept and (not sums or values[index] in sums)
        taken.add(values[index])
        growth *= max(1.0, values[index] / size.value)
    return [values[index] for index in range(len(sizes))], sums_kept


def _above(low: int) -> list[int]:
    """List the smallest sizes above 2 that are at least `low`."""
    least = max(_SHIFT, low)
    return list(range(least, least + _MOST))


def _near(value: int, growth: float) -> list[int]:
    """List other values for a size, the best first."""
    if value <= _SMALL:
        target = value + value // 2 + 1
        return sorted(range(2, target + 64), key=lambda other: (abs(other - target), -other))
    target = value if value <= _WINDOW else int(value / max(2.0, growth))
    others = (other for other in range(max(2, target - 64), max(value, target) + 64) if other != value)
    return sorted(others, key=lambda other: (_hides(value, other), abs(other - target), other))


def _hides(one: int, other: int) -> bool:
    """Return whether a model may compute the same from two sizes.

    Two sizes may have equal halves, rounded up or down, equal remainders by 2, or equally many windows of 8.
    """
    return abs(one - other) < 3 or (one - other) % 2 == 0 or -one // _WINDOW == -other // _WINDOW


def _by_power_of_two(value: int) -> int:
    """Change a size by the largest power of two that divides it, or by its half."""
    power = value & -value
    if value <= _SMALL:
        return value + power
    return value - power if power < value else value // 2


_CHANGES: tuple[Callable[[int], int], ...] = (
    _by_power_of_two,
    lambda value: value + _SHIFT,
    lambda value: 2 * value,
    lambda value: max(2, value // 2),
)


def _larger(number: float) -> float:
    """Return a larger number of the same type, and for a bool the other one."""
    if isinstance(number, bool):
        return not number
    return number + 1 if isinstance(number, int) else number + abs(number) / 2 or 0.5


def _smaller(number: float) -> float:
    """Return a smaller number of the same type, and for a bool the other one."""
    if isinstance(number, bool):
        return not number
    return number - 1 if isinstance(number, int) else number - abs(number) / 2 or -0.5


_NUMBER_CHANGES: tuple[Callable[[float], float], ...] = (_larger, _smaller)


def _example(
    spec: DynamicSpec, example: Sequence[Any], lengths: Mapping[tuple[int, int], int], numbers: Mapping[int, float]
) -> OtherSizes:
    changed = list(example)
    for index, number in numbers.items():
        changed[index] = number
    for (index, axis), length in lengths.items():
        if changed[index].shape[axis] != length:
            changed[index] = resize_example(changed[index], axis, length)
    texts = [
        f"{leaf.name}: {' × '.join(map(str, new.shape)) if isinstance(new, torch.Tensor) else new}"
        for leaf, old, new in zip(spec.leaves, example, changed, strict=True)
        if new is not old
    ]
    return OtherSizes(changed, ", ".join(texts))
