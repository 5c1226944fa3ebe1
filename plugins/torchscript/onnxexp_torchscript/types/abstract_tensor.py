"""Abstract tensors: the dtype and the symbolic sizes of a tensor, without torch.

A fake tensor of torch has the same facts. A fake tensor is made only where a kernel of torch runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
UNKNOWN = object()
"""The type of a fake without dtype and rank."""


class AbstractTensor:
    """An immutable dtype and shape; the sizes are ints and symbolic numbers."""

    __slots__ = ("_fake", "dtype", "shape")

    def __init__(self, dtype: torch.dtype, shape: Sequence[Any], fake: torch.Tensor | None = None) -> None:
        self.dtype = dtype
        self.shape = tuple(map(_plain, shape))
        self._fake = fake

    def forget_fake(self) -> None:
        """Drop the fake tensor, so that `fake` makes a new one.

        A fake tensor of torch keeps its number of elements even after its symbols are restored.
        """
        self._fake = None

    def dim(self) -> int:
        """Return the rank."""
        return len(self.shape)

    def new_empty(self, sizes: Sequence[Any], *, dtype: torch.dtype | None = None) -> AbstractTensor:
        """Return an abstract tensor of the same dtype, as `torch.Tensor.new_empty`."""
        return AbstractTensor(dtype or self.dtype, sizes)

    def fake(self) -> torch.Tensor:
        """Return the fake tensor for torch's kernels, made once under the active mode."""
        if self._fake is None:
            self._fake = torch.empty(self.shape, dtype=self.dtype)
        return self._fake


def to_fake(arg: Any) -> Any:
    """Replace abstract tensors in an argument by fake tensors."""
    if isinstance(arg, list):
        return [to_fake(element) for element in arg]
    return arg.fake() if isinstance(arg, AbstractTensor) else arg


def from_fake(result: Any) -> Any:
    """Replace fake tensors in a kernel's result by abstract tensors."""
    if isinstance(result, (list, tuple)):
        return [from_fake(element) for element in result]
    return AbstractTensor(result.dtype, result.shape, result) if isinstance(result, torch.Tensor) else result


def expr_of(size: Any) -> Any:
    """Return a symbolic number's sympy expression, or a known number as it is."""
    return size.node.expr if isinstance(size, NUMBERS) else size


def same(one: Any, other: Any) -> bool:
    """Return whether two sizes are equal for all inputs."""
    return bool(expr_of(one) == expr_of(other))


def key_of(name: str, fakes: Any) -> Any:
    """Return a key that is equal for calls whose results have equal types."""
    if isinstance(fakes, (list, tuple)):
        return name, *(key_of("", fake) for fake in fakes)
    if isinstance(fakes, AbstractTensor):
        return fakes.dtype, tuple(map(expr_of, fakes.shape))
    return type(fakes), expr_of(fakes)


def symbols_of(fakes: Any, *, tensors: bool = False) -> set[Any]:
    """Collect the symbols in fakes or, with `tensors`, only in sizes of tensors."""
    if isinstance(fakes, (list, tuple)):
        return {symbol for fake in fakes for symbol in symbols_of(fake, tensors=tensors)}
    if tensors and not isinstance(fakes, AbstractTensor):
        return set()
    numbers = fakes.shape if isinstance(fakes, AbstractTensor) else [fakes]
    return {symbol for number in numbers if isinstance(number, NUMBERS) for symbol in number.node.expr.free_symbols}


def _plain(size: Any) -> Any:
    """Unwrap a symbolic number whose value is known."""
    if isinstance(size, torch.SymInt):
        expr = size.node.expr
        return int(expr) if expr.is_number else size
    return size


def kind_of(number: Any) -> type:
    """Return the kind of a known or symbolic number: bool, int or float."""
    if isinstance(number, (bool, torch.SymBool)):
        return bool
    return float if isinstance(number, (float, torch.SymFloat)) else int


def harmless(guard: Any) -> bool:
    """Return whether a guard only equates sizes and numbers, or bounds a size by 2.

    A guard on a computed size (``(n + 3)//4 == 2``) may hold for the example only.
    """
    if guard in (sympy.true, sympy.false):
        return True
    if isinstance(guard, (sympy.Eq, sympy.Ne)) and all(side.is_Atom for side in guard.args):
        return True
    if isinstance(guard, sympy.Not):
        guard = guard.to_nnf(simplify=False)
    if isinstance(guard, (sympy.And, sympy.Or)):
        return (all if isinstance(guard, sympy.And) else any)(map(harmless, guard.args))
    sign = _SIGNS.get(type(guard))
    if sign is None:
        return False
    grown = {symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=True) + 2 for symbol in guard.free_symbols}
    try:  # simplify() knows more, and may take minutes for torch's FloorDiv and Min
        return bool(sign(sympy.expand((guard.lhs - guard.rhs).xreplace(grown))))
    except RecursionError:  # sympy decomposes some of torch's FloorDiv and Min without end
        return False
    except TypeError:  # two conditions have no difference
        return False


_SIGNS: Mapping[type, Callable[[sympy.Expr], bool | None]] = {
    sympy.Eq: lambda difference: difference.is_zero,
    sympy.Ne: lambda difference: difference.is_nonzero,
    sympy.Ge: lambda difference: difference.is_nonnegative,
    sympy.Gt: lambda difference: difference.is_positive,
    sympy.Le: lambda difference: difference.is_nonpositive,
    sympy.Lt: lambda difference: difference.is_negative,
}
"""For each relation, whether it is true of the difference of its sides; None where that is not known."""


def static_truth(condition: Any) -> bool | None:
    """Return a condition's value if it is the same for all sizes, else None."""
    if isinstance(condition, bool):
        return condition
    expr = condition.node.expr
    free = {
        symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=True) for symbol in expr.free_symbols if symbol.is_integer
    }
    plain = expr.xreplace(free)
    return bool(plain) if plain in (sympy.true, sympy.false) else None


def has_unknown(fakes: Sequence[Any]) -> bool:
    """Return whether the type of a fake, or of one in a list, is unknown."""
    return any(fake is UNKNOWN or (isinstance(fake, list) and has_unknown(fake)) for fake in fakes)


def is_unbacked(size: Any) -> bool:
    """Return whether a size is a single unbacked symbol."""
    expr = size.node.expr if isinstance(size, torch.SymInt) else None
    return isinstance(expr, sympy.Symbol) and free_unbacked_symbols(expr) != set()


def is_long(size: Any) -> bool:
    """Return whether a size is a rounded quotient or the like of input sizes."""
    if not isinstance(size, torch.SymInt):
        return False
    expr = size.node.expr
    return bool(expr.count_ops() > 2 and expr.atoms(sympy.Function) and not free_unbacked_symbols(expr))


def repeatable(result: Any, fakes: list[Any]) -> bool:
    """Return whether all sizes of a result follow from the arguments."""
    results = result if isinstance(result, (list, tuple)) else [result]
    return all(isinstance(one, AbstractTensor) for one in results) and not free_unbacked_symbols(
        list(symbols_of(results) - symbols_of(fakes))
    )
