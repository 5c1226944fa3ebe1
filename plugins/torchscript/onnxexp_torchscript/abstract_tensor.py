"""What is known of a tensor while a TorchScript graph is read: its dtype and its sizes.

A fake tensor of torch's knows the same, but takes torch hundreds of times as long to make, so that one is made only where a
kernel of torch's has to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

__all__ = [
    "NUMBERS",
    "UNKNOWN",
    "Outline",
    "expr_of",
    "filled",
    "harmless",
    "key_of",
    "kind_of",
    "outlined",
    "same",
    "static_truth",
    "symbols_of",
]

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
UNKNOWN = object()
"""The type of something that nothing is known of."""


class Outline:
    """The dtype and the sizes (ints and symbolic numbers) of a tensor; neither ever changes."""

    __slots__ = ("_fake", "dtype", "shape")

    def __init__(self, dtype: torch.dtype, shape: Sequence[Any], fake: torch.Tensor | None = None) -> None:
        self.dtype = dtype
        self.shape = tuple(map(_plain, shape))
        self._fake = fake

    def dim(self) -> int:
        """The rank."""
        return len(self.shape)

    def new_empty(self, sizes: Sequence[Any], *, dtype: torch.dtype | None = None) -> Outline:
        """As a tensor's."""
        return Outline(dtype or self.dtype, sizes)

    def fake(self) -> torch.Tensor:
        """The fake tensor that torch's kernels take, in the fake mode that is on; the same one each time."""
        if self._fake is None:
            self._fake = torch.empty(self.shape, dtype=self.dtype)
        return self._fake

    def copy(self) -> Outline:
        """The same with a fake tensor of its own, for a kernel that changes it."""
        return Outline(self.dtype, self.shape)


def filled(arg: Any) -> Any:
    """An argument with fake tensors in the places of the outlines."""
    if isinstance(arg, list):
        return [filled(element) for element in arg]
    return arg.fake() if isinstance(arg, Outline) else arg


def outlined(result: Any) -> Any:
    """What a kernel gave with outlines in the places of the fake tensors."""
    if isinstance(result, (list, tuple)):
        return [outlined(element) for element in result]
    return Outline(result.dtype, result.shape, result) if isinstance(result, torch.Tensor) else result


def expr_of(size: Any) -> Any:
    """A number as sympy has it; one that is known as it is."""
    return size.node.expr if isinstance(size, NUMBERS) else size


def same(one: Any, other: Any) -> bool:
    """Whether two sizes are equal whatever the inputs are."""
    return bool(expr_of(one) == expr_of(other))


def key_of(name: str, fakes: Any) -> Any:
    """The same for calls that give tensors of the same types."""
    if isinstance(fakes, (list, tuple)):
        return name, *(key_of("", fake) for fake in fakes)
    if isinstance(fakes, Outline):
        return fakes.dtype, tuple(map(expr_of, fakes.shape))
    return type(fakes), expr_of(fakes)


def symbols_of(fakes: Any, *, tensors: bool = False) -> set[Any]:
    """The symbols in fakes; `tensors`: those in the sizes of tensors only."""
    if isinstance(fakes, (list, tuple)):
        return {symbol for fake in fakes for symbol in symbols_of(fake, tensors=tensors)}
    if tensors and not isinstance(fakes, Outline):
        return set()
    numbers = fakes.shape if isinstance(fakes, Outline) else [fakes]
    return {symbol for number in numbers if isinstance(number, NUMBERS) for symbol in number.node.expr.free_symbols}


def _plain(size: Any) -> Any:
    """A size as an int where it is a symbolic number that has come out as one."""
    if isinstance(size, torch.SymInt):
        expr = size.node.expr
        return int(expr) if expr.is_number else size
    return size


def kind_of(number: Any) -> type:
    """The type of a number, known or symbolic: bool, int or float."""
    if isinstance(number, (bool, torch.SymBool)):
        return bool
    return float if isinstance(number, (float, torch.SymFloat)) else int


def harmless(guard: Any) -> bool:
    """Whether a condition says no more than that a size is another's or a number, or that it is 2 or more.

    That what is computed from sizes is equal to something (``(n + 3)//4 == 2``) may be what the example decided.
    """
    if guard in (sympy.true, sympy.false):
        return True
    if isinstance(guard, (sympy.Eq, sympy.Ne)) and all(side.is_Atom for side in guard.args):
        return True
    grown = {symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=True) + 2 for symbol in guard.free_symbols}
    return bool(sympy.simplify(guard.xreplace(grown)) == sympy.true)


def static_truth(condition: Any) -> bool | None:
    """Whether a condition holds whatever the inputs are (sizes of 0 and 1 too), None where it depends on them."""
    if isinstance(condition, bool):
        return condition
    expr = condition.node.expr
    free = {
        symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=True) for symbol in expr.free_symbols if symbol.is_integer
    }
    plain = expr.xreplace(free)
    return bool(plain) if plain in (sympy.true, sympy.false) else None
