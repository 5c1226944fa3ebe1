"""Examples at other sizes than the user's, and with other dynamic numbers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxexp.capture.example_inputs import derivation, grow
from onnxexp.request.dynamic_shapes import Axis, DynamicSpec

__all__ = ["OtherSizes", "other_sizes"]

_SMALL = 4
"""Larger sizes shrink where that is possible, so that the second trace costs less than the first."""
_WINDOW = 8
"""A window that models have, with larger ones: sizes up to it grow, so that a number of windows differs."""
_MORE = 1.25
"""A second trace with at most this ratio of elements costs no more than the first and its conversion."""
_SHIFT = 3
_ATTEMPTS = 4
"""How many choices of sizes are tried until sums stay sums."""


@dataclasses.dataclass(frozen=True)
class OtherSizes:
    """An example of the model's call at other sizes.

    Attributes:
        example: The leaves of the call.
        text: These sizes as text.
        larger: Whether it has clearly more elements than the user's example.
    """

    example: list[Any]
    text: str
    larger: bool


@dataclasses.dataclass
class _Size:
    """A dynamic size: its value in the example, its bounds, and its axes."""

    value: int
    low: int
    high: int | None
    axes: list[tuple[int, int, Callable[[int], int]]]

    def allows(self, value: int) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)


def other_sizes(spec: DynamicSpec, example: Sequence[Any]) -> Iterator[OtherSizes]:
    """Yield examples at other sizes, the most general first.

    First every size is another one, then sizes keep their powers of two, their differences, their ratios. Every dynamic number
    is another one, too. Nothing is yielded where no axis and no number is dynamic.
    """
    sizes = _sizes(spec, example)
    given = {index: example[index] for index, wanted in spec.scalars.items() if wanted.required}
    seen = [(tuple(size.value for size in sizes), given)]
    shapes = [(leaf.shape, axes) for leaf, axes in zip(example, spec.axes, strict=True) if isinstance(leaf, torch.Tensor)]
    one_new = any(length == 1 and axis not in axes for shape, axes in shapes for axis, length in enumerate(shape))
    for attempt, values in enumerate((_apart(sizes, one_new), *([change(size.value) for size in sizes] for change in _CHANGES))):
        numbers = {index: _NUMBER_CHANGES[attempt % 2](number) for index, number in given.items()}
        if (tuple(values), numbers) not in seen and all(map(_Size.allows, sizes, values)):
            seen.append((tuple(values), numbers))
            yield _example(spec, example, sizes, values, numbers)


def _sizes(spec: DynamicSpec, example: Sequence[Any]) -> list[_Size]:
    """Group the dynamic axes: by Dim, by name and size, or each alone."""
    found: dict[Any, _Size] = {}
    for index, axes in enumerate(spec.axes):
        for axis, wanted in axes.items():
            if wanted.required and example[index].shape[axis] > 0:
                key, size = _size(index, axis, wanted, example[index].shape[axis])
                found.setdefault(key, size).axes += size.axes
    for size in found.values():
        size.axes = list({axes[:2]: axes for axes in size.axes}.values())
    return list(found.values())


def _size(index: int, axis: int, wanted: Axis, length: int) -> tuple[Any, _Size]:
    derived = derivation(wanted.dim)
    if derived is None:
        key = (wanted.name, length) if wanted.name else (index, axis)
        bounds = vars(wanted.dim)  # Dim.DYNAMIC(min=..., max=...)
        return key, _Size(length, max(2, bounds.get("min") or 2), bounds.get("max"), [(index, axis, int)])
    name, function = derived
    root = vars(wanted.dim).get("root", wanted.dim)
    value = (length - function(0)) // (function(1) - function(0))
    high = int(root.max) if isinstance(root.max, int) else None
    return name, _Size(value, max(int(root.min), 1), high, [(index, axis, function)])


def _apart(sizes: Sequence[_Size], one_new: bool) -> list[int]:
    """Change every size, so that no two are equal and sums stay sums.

    A mask of ``past + new`` positions, or ``past + 1``, stays one: a model that checks it takes another branch for any other.
    Large sizes make up for the growth of small ones: 2 x 16 becomes 4 x 7, with no more elements.
    """
    attempts = [_changed(sizes, one_new, skipped) for skipped in range(_ATTEMPTS)]
    return next((values for values, sums_kept in attempts if sums_kept), attempts[0][0])


def _changed(sizes: Sequence[_Size], one_new: bool, skipped: int) -> tuple[list[int], bool]:
    """Change every size but for the first `skipped` choices.

    Also return whether sums stay sums.
    """
    taken = {size.value for size in sizes}
    values: dict[int, int] = {}
    order = sorted(range(len(sizes)), key=lambda index: sizes[index].value)
    growth, sums_kept = 1.0, True
    for place, index in enumerate(order):
        size = sizes[index]
        smaller = [(sizes[one].value, values[one]) for one in order[:place]]
        sums = [b + d for (a, b), (c, d) in itertools.combinations(smaller, 2) if a + c == size.value]
        sums += [new + 1 for old, new in smaller if one_new and size.value == old + 1]
        near = _near(size.value, growth)[skipped:]
        values[index] = next((value for value in (*sums, *near) if value not in taken and size.allows(value)), size.value)
        sums_kept = sums_kept and (not sums or values[index] in sums)
        taken.add(values[index])
        growth *= max(1.0, values[index] / size.value)
    return [values[index] for index in range(len(sizes))], sums_kept


def _near(value: int, growth: float) -> list[int]:
    """List other values for a size, the best first."""
    if value <= _SMALL:
        target = value + value // 2 + 1
        return sorted(range(2, target + 64), key=lambda other: (abs(other - target), -other))
    target = value if value <= _WINDOW else int(value / max(2.0, growth))
    others = (other for other in range(max(2, target - 64), max(value, target) + 64) if other != value)
    return sorted(others, key=lambda other: (_hides(value, other), abs(other - target), other))


def _hides(one: int, other: int) -> bool:
    """Whether a model may compute the same from two sizes.

    They have equal halves, rounded up or down, or equal remainders by 2, or are as many windows of 8.
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
    lambda value: value // 2,
)


def _larger(number: float) -> float:
    """Return a larger number of the same type; of a bool, the other one."""
    if isinstance(number, bool):
        return not number
    return number + 1 if isinstance(number, int) else number + abs(number) / 2 or 0.5


def _smaller(number: float) -> float:
    """Return a smaller number of the same type; of a bool, the other one."""
    if isinstance(number, bool):
        return not number
    return number - 1 if isinstance(number, int) else number - abs(number) / 2 or -0.5


_NUMBER_CHANGES: tuple[Callable[[float], float], ...] = (_larger, _smaller)


def _example(
    spec: DynamicSpec, example: Sequence[Any], sizes: Sequence[_Size], values: Sequence[int], numbers: Mapping[int, float]
) -> OtherSizes:
    changed = list(example)
    for index, number in numbers.items():
        changed[index] = number
    for size, value in zip(sizes, values, strict=True):
        for index, axis, function in size.axes:
            if changed[index].shape[axis] != function(value):
                changed[index] = grow(changed[index], axis, function(value))
    texts = [
        f"{leaf.name}: {' × '.join(map(str, new.shape)) if isinstance(new, torch.Tensor) else new}"
        for leaf, old, new in zip(spec.leaves, example, changed, strict=True)
        if new is not old
    ]
    return OtherSizes(changed, ", ".join(texts), _elements(changed) > _MORE * _elements(example))


def _elements(leaves: Sequence[Any]) -> int:
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
