"""Probes: calls run at several sizes, where torch decides by the example's sizes.

Examples are ``x[:3]`` and broadcasting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp.graph import TensorType
from onnxexp_torchscript.types.abstract_tensor import NUMBERS, UNKNOWN, AbstractTensor, kind_of, symbols_of
from onnxexp_torchscript.types.data_dependent_sizes import UnbackedSizes

Run: TypeAlias = Callable[[torch._ops.OpOverload, str, list[Any], Sequence[Any]], Any]
"""Runs a kernel: (operator, its name, arguments with abstract tensors, the neutral graph's arguments)."""

_TRIALS: tuple[tuple[Callable[[int, int], int], Callable[[int], int]], ...] = (
    (lambda place, count: 211 + 14 * place, lambda place: 5 + place % 3),
    (lambda place, count: 353 - 14 * place % 340, lambda place: 1 + place % 3),
    (lambda place, count: 2 + place, lambda place: 1 + (place + 1) % 3),
    (lambda place, count: 1 + count - place, lambda place: 1 + (place + 2) % 3),
    (lambda place, count: 19 + 6 * (count - place), lambda place: 31 + 8 * place),
    (lambda place, count: 96, lambda place: 96),
    (lambda place, count: 307 + place if place % 2 else 7 + place, lambda place: 347 + place),
    (lambda place, count: 7 + place if place % 2 else 307 + place, lambda place: 13 + 10 * place),
)
"""The sizes that are tried, by a symbol's place among `count` symbols, and the numbers that are no sizes.

The order of the sizes differs between trials, and some are equal or far apart: two terms that agree in all trials are equal.
The first two leave room for windows and for slices, and grow with the example's sizes.
"""
_RANKS, _SIZE = (1, 2, 3, 4, 5), 3
"""The ranks that are tried, and the size of every axis there."""


class SizeProbe:
    """Runs of calls at other sizes than the example's.

    `long_of` has the expressions that some symbols stand for; those symbols follow from the others.
    """

    def __init__(self, run: Run, unbacked: UnbackedSizes, long_of: Mapping[Any, Any]) -> None:
        self._run = run
        self._unbacked = unbacked
        self._long_of = long_of

    def agrees(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], result: Any) -> bool:
        """Return whether sizes inferred from the example agree with runs at other sizes."""
        for at in self._trials([*fakes, result], _distinct):
            outcome = self._tried(op, name, fakes, args, at)
            if outcome is not UNKNOWN and not _same_at(result, outcome, at):
                return False
        return True

    def result(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any]) -> Any:
        """Infer a result from runs at several sizes, else UNKNOWN.

        A size that is equal in all runs is that number; one that equals a single size or number of the arguments in all runs is
        that one; any other is unbacked.
        """
        for tied in (_distinct, _tied, _ones):
            trials = []
            for number, at in enumerate(self._trials(fakes, tied)):
                outcome = self._tried(op, name, fakes, args, at)
                if outcome is not UNKNOWN:
                    trials.append((at, outcome))
                elif number == 1 and not trials:
                    break  # the first two trials leave the most room: a call that fails at both fails everywhere
            if len(trials) > 1:
                return self._agreed([outcome for _, outcome in trials], [at for at, _ in trials], _terms(fakes), tied is _ones)
        return UNKNOWN

    def _trials(self, fakes: list[Any], tied: Callable[[bool, int, int], int]) -> Iterator[dict[Any, int]]:
        """Yield the values of all symbols for each trial."""
        in_sizes, _ = self._origins(symbols_of(fakes, tensors=True))
        symbols, derived = self._origins(symbols_of(fakes))
        sizes, numbers = sorted(in_sizes, key=_name), sorted(symbols - in_sizes, key=_name)
        long_of = {symbol: expr for symbol, expr in self._long_of.items() if symbol in derived}
        loose = {symbol for symbol in sizes if free_unbacked_symbols(symbol)}
        hints = self._unbacked.env.backed_var_to_val
        wide = 1 + max((int(hints.get(symbol, 0)) for symbol in sizes), default=0) // 200
        for row, (size, number) in enumerate(_TRIALS):
            tries = [size(place, len(sizes)) * (wide if row < 2 else 1) for place in range(len(sizes))]
            at = {symbol: tied(symbol in loose, tries[0], value) for symbol, value in zip(sizes, tries, strict=True)}
            at |= {symbol: number(place) for place, symbol in enumerate(numbers)}
            with contextlib.suppress(ArithmeticError, TypeError):  # a derived size may not exist there
                for symbol, expr in long_of.items():  # each is made of earlier ones
                    at[symbol] = int(expr.xreplace(at))
                yield at

    def _origins(self, symbols: set[Any]) -> tuple[set[Any], set[Any]]:
        """Split into symbols and those that stand for expressions of them."""
        found, derived = set(symbols), set[Any]()
        while more := (found - derived) & self._long_of.keys():
            derived |= more
            found = found.union(*(self._long_of[symbol].free_symbols for symbol in more))
        return found - derived, derived

    def of_any_rank(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any]) -> Any:
        """Infer a result from runs at several ranks of the tensors of unknown rank.

        Returns a fake if dtype and rank agree, a type if only the dtype does, else UNKNOWN.
        """
        outcomes = []
        for rank in _RANKS:
            ranked = [self._of_rank(fake, arg, rank) for fake, arg in zip(fakes, args, strict=True)]
            outcome = self._tried(op, name, ranked, args, dict.fromkeys(symbols_of(ranked), _SIZE))
            if isinstance(outcome, AbstractTensor):
                outcomes.append(outcome)
        dtypes, ranks = {outcome.dtype for outcome in outcomes}, {outcome.dim() for outcome in outcomes}
        if len(dtypes) != 1:
            return UNKNOWN
        return self._unbacked.tensor(dtypes.pop(), [None] * ranks.pop()) if len(ranks) == 1 else TensorType(dtypes.pop(), None)

    def _of_rank(self, fake: Any, arg: Any, rank: int) -> Any:
        if isinstance(arg, (list, tuple)):
            return [self._of_rank(*pair, rank) for pair in zip(fake, arg, strict=True)]
        if fake is not UNKNOWN or not isinstance(arg.type, TensorType) or arg.type.dtype is None:
            return fake
        return self._unbacked.tensor(arg.type.dtype, [_SIZE] * rank)

    def _tried(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], at: dict[Any, int]) -> Any:
        try:
            return self._run(op, name, [_at(fake, at) for fake in fakes], args)
        except Exception:  # noqa: BLE001 - an operator may refuse these sizes by any exception
            return UNKNOWN

    def _agreed(self, outcomes: list[Any], at: list[dict[Any, int]], terms: list[Any], doubtful: bool) -> Any:
        first = outcomes[0]
        if isinstance(first, (list, tuple)):
            if len({len(outcome) for outcome in outcomes}) > 1:
                return UNKNOWN
            return [self._agreed(list(parts), at, terms, doubtful) for parts in zip(*outcomes, strict=True)]
        if not isinstance(first, AbstractTensor):
            return self._unbacked.any_number(kind_of(first))
        if len({(outcome.dtype, outcome.dim()) for outcome in outcomes}) > 1:
            return UNKNOWN
        found = zip(*(outcome.shape for outcome in outcomes), strict=True)
        return self._unbacked.tensor(first.dtype, [self._agreed_size(list(sizes), at, terms, doubtful) for sizes in found])

    def _agreed_size(self, found: list[Any], at: list[dict[Any, int]], terms: list[Any], doubtful: bool) -> Any:
        if any(isinstance(size, torch.SymInt) for size in found) or (doubtful and set(found) == {1}):
            return None
        if len(set(found)) == 1:
            return found[0]
        equal = [symbol for symbol in at[0] if [sizes[symbol] for sizes in at] == found]
        if len(equal) > 1 and any(map(free_unbacked_symbols, equal)):
            return None  # they were tied in the trials
        symbol = next(iter(equal), None)
        if symbol is None:
            return next((term for term in terms if [_at(term, sizes) for sizes in at] == found), None)
        hint = self._unbacked.env.backed_var_to_val.get(symbol)
        return self._unbacked.env.create_symintnode(symbol, hint=None if hint is None else int(hint))


def _terms(fakes: Any) -> list[Any]:
    """List the symbolic sizes and integers in fakes."""
    if isinstance(fakes, (list, tuple)):
        return [term for fake in fakes for term in _terms(fake)]
    numbers = fakes.shape if isinstance(fakes, AbstractTensor) else [fakes]
    return [number for number in numbers if isinstance(number, torch.SymInt)]


def _same_at(result: Any, outcome: Any, at: dict[Any, int]) -> bool:
    if isinstance(result, (list, tuple)):
        return len(result) == len(outcome) and all(_same_at(a, b, at) for a, b in zip(result, outcome, strict=True))
    if not isinstance(result, AbstractTensor):
        return True
    pairs = zip(result.shape, outcome.shape, strict=False)
    return result.dim() == outcome.dim() and all(_at(a, at) == b for a, b in pairs if not isinstance(b, torch.SymInt))


def _distinct(loose: bool, first: int, own: int) -> int:
    """Return the value of a symbol in a trial: its own."""
    return own


def _tied(loose: bool, first: int, own: int) -> int:
    """Return the value of a symbol in a trial: the first symbol's if it is unbacked."""
    return first if loose else own


def _ones(loose: bool, first: int, own: int) -> int:
    """Return the value of a symbol in a trial: 1 if it is unbacked."""
    return 1 if loose else own


def _name(symbol: Any) -> str:
    return str(symbol.name)


def _at(fake: Any, at: dict[Any, int]) -> Any:
    """Substitute numbers for the symbols of a fake."""
    if isinstance(fake, (list, tuple)):
        return [_at(element, at) for element in fake]
    if isinstance(fake, AbstractTensor):
        sizes = [int(_at(size, at)) for size in fake.shape]
        if min(sizes, default=0) < 0:
            raise ValueError("no tensor has such a size")
        return AbstractTensor(fake.dtype, sizes)
    if not isinstance(fake, NUMBERS):
        return fake
    value = fake.node.expr.xreplace(at)
    return bool(value) if isinstance(fake, torch.SymBool) else float(value) if isinstance(fake, torch.SymFloat) else int(value)
