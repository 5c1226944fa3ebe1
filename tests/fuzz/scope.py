"""The live variables of a program being written, and random draws from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Predicate = Callable[[torch.Tensor], bool]


class Unfit(Exception):
    """No live variable fits a statement."""


def floating(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def integral(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def boolean(x: torch.Tensor) -> bool:
    return x.dtype == torch.bool


def number(x: torch.Tensor) -> bool:
    return x.dtype != torch.bool


def at_least(rank: int, size: int = 1) -> Predicate:
    """Match a tensor of `rank` or more axes, each of `size` or more elements."""
    return lambda x: x.dim() >= rank and all(each >= size for each in x.shape)


def is_all(*predicates: Predicate) -> Predicate:
    return lambda x: all(predicate(x) for predicate in predicates)


class Scope:
    """The variables that statements may use, with their values in eager."""

    def __init__(self, rng: random.Random, frontend: str) -> None:
        self.rng, self.frontend = rng, frontend
        self.values: dict[str, torch.Tensor] = {}
        self.setup: list[str] = []
        """The attributes that the next statement needs."""
        self.ragged: set[str] = set()
        """The variables whose sizes depend on values: few operators may combine them with other variables."""
        self.regions = 0
        """The number of regions that eager compiles."""
        self._count = 0

    def new(self, prefix: str = "v") -> str:
        """Return a name that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def attribute(self, prefix: str, value: str) -> str:
        """Add an attribute to the module; return its name with ``self.``."""
        self._count += 1
        name = f"self.{prefix}{self._count}"
        self.setup.append(f"{name} = {value}")
        return name

    def buffer(self, value: str) -> str:
        self._count += 1
        self.setup.append(f'self.register_buffer("b{self._count}", {value})')
        return f"self.b{self._count}"

    def tensor(self, fits: Predicate = lambda _: True, *, ragged: bool = False) -> str:
        """Return a live real variable, a recent one more often than an old one."""
        return self._drawn(lambda name, x: not x.is_complex() and (ragged or name not in self.ragged) and fits(x))

    def complex_tensor(self, fits: Predicate = lambda _: True) -> str:
        """Return a live variable of complex numbers."""
        return self._drawn(lambda name, x: x.is_complex() and name not in self.ragged and fits(x))

    def _drawn(self, fits: Callable[[str, torch.Tensor], bool]) -> str:
        names = [name for name, value in self.values.items() if fits(name, value)]
        if not names:
            raise Unfit
        recent = names[-3:] if self.chance(0.6) else names
        return self.rng.choice(recent)

    def fitting(self, shape: Sequence[int], fits: Predicate = lambda _: True) -> str:
        """Return a variable that broadcasts with a shape."""
        return self.tensor(lambda x: fits(x) and _broadcasts(x.shape, shape))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def dim(self, name: str, fits: Callable[[int], bool] = lambda _: True) -> int:
        """Return an axis of a variable, from the front or the back."""
        shape = self.shape(name)
        axes = [axis for axis, size in enumerate(shape) if fits(size)]
        if not axes:
            raise Unfit
        axis = self.rng.choice(axes)
        return axis - len(shape) if self.chance(0.4) else axis

    def size(self, name: str, dim: int) -> str:
        """Return the text of a size: read from the shape, or the number."""
        if self.chance(0.6):
            return self.rng.choice([f"{name}.shape[{dim}]", f"{name}.size({dim})"])
        return str(self.shape(name)[dim])

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def scalar(self) -> Any:
        """Return a Python number."""
        return self.choice([2, 3, -1, 0.5, 1.5, -2.0, 1, 0, True])


def _broadcasts(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one), reversed(other), strict=False))
