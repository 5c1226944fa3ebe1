"""Probes: calls run at several sizes, where torch decides by the example's.

Examples are ``x[:3]`` and broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp import TensorType
from onnxexp_torchscript.abstract_tensor import NUMBERS, UNKNOWN, AbstractTensor, kind_of, symbols_of
from onnxexp_torchscript.data_dependent_sizes import UnbackedSizes

__all__ = ["Run", "SizeProbe"]

Run: TypeAlias = Callable[[torch._ops.OpOverload, str, list[Any], Sequence[Any]], Any]
"""Runs a kernel: (operator, its name, arguments with abstract tensors, the neutral graph's arguments)."""

_TRIALS = ((7, 11, 13, 17, 19, 23), (29, 31, 37, 41, 43, 47), (2, 3, 5, 4, 6, 8), (211, 223, 227, 229, 233, 239))
"""The sizes that are tried."""
_RANKS, _SIZE = (1, 2, 3, 4, 5), 3
"""The ranks that are tried, and the size of every axis there."""


class SizeProbe:
    """Runs of calls at other sizes than the example's."""

    def __init__(self, run: Run, unbacked: UnbackedSizes) -> None:
        self._run = run
        self._unbacked = unbacked

    def agrees(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], result: Any) -> bool:
        """Whether sizes inferred from the example agree with runs at other sizes."""
        symbols = sorted(symbols_of(fakes), key=_name)
        for primes in _TRIALS:
            at = {symbol: primes[index % len(primes)] for index, symbol in enumerate(symbols)}
            outcome = self._tried(op, name, fakes, args, at)
            if outcome is not UNKNOWN and not _same_at(result, outcome, at):
                return False
        return True

    def result(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any]) -> Any:
        """Infer a result from runs at several sizes, else UNKNOWN.

        A size that is equal in all runs is that number; one that equals a symbol's value in all runs is the symbol; any other is
        unbacked.
        """
        sizes = sorted(symbols_of(fakes, tensors=True), key=_name)
        others = sorted(symbols_of(fakes) - set(sizes), key=_name)
        loose = {symbol for symbol in sizes if free_unbacked_symbols(symbol)}
        for tied in (_distinct, _tied, _ones):
            trials = []
            for number, primes in enumerate(_TRIALS):
                at = {symbol: tied(symbol in loose, primes, index) for index, symbol in enumerate(sizes)}
                at |= {symbol: 1 + (index + number) % 3 for index, symbol in enumerate(others)}
                outcome = self._tried(op, name, fakes, args, at)
                if outcome is not UNKNOWN:
                    trials.append((at, outcome))
                elif number == 0:
                    break
            if len(trials) > 1:
                return self._agreed([outcome for _, outcome in trials], [at for at, _ in trials], tied is _ones)
        return UNKNOWN

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
        except Exception:  # noqa: BLE001 - kernels raise anything; a call that fails at these sizes is no evidence
            return UNKNOWN

    def _agreed(self, outcomes: list[Any], at: list[dict[Any, int]], doubtful: bool) -> Any:
        first = outcomes[0]
        if isinstance(first, (list, tuple)):
            if len({len(outcome) for outcome in outcomes}) > 1:
                return UNKNOWN
            return [self._agreed(list(parts), at, doubtful) for parts in zip(*outcomes, strict=True)]
        if not isinstance(first, AbstractTensor):
            return self._unbacked.any_number(kind_of(first))
        if len({(outcome.dtype, outcome.dim()) for outcome in outcomes}) > 1:
            return UNKNOWN
        sizes = [
            self._agreed_size(list(found), at, doubtful) for found in zip(*(outcome.shape for outcome in outcomes), strict=True)
        ]
        return self._unbacked.tensor(first.dtype, sizes)

    def _agreed_size(self, found: list[Any], at: list[dict[Any, int]], doubtful: bool) -> Any:
        if any(isinstance(size, torch.SymInt) for size in found) or (doubtful and set(found) == {1}):
            return None
        if len(set(found)) == 1:
            return found[0]
        same = (symbol for symbol in at[0] if [sizes[symbol] for sizes in at] == found)
        symbol = next(same, None)
        if symbol is None:
            return None
        hint = self._unbacked.env.backed_var_to_val.get(symbol)
        return self._unbacked.env.create_symintnode(symbol, hint=None if hint is None else int(hint))


def _same_at(result: Any, outcome: Any, at: dict[Any, int]) -> bool:
    if isinstance(result, (list, tuple)):
        return len(result) == len(outcome) and all(_same_at(a, b, at) for a, b in zip(result, outcome, strict=True))
    if not isinstance(result, AbstractTensor):
        return True
    pairs = zip(result.shape, outcome.shape, strict=False)
    return result.dim() == outcome.dim() and all(_at(a, at) == b for a, b in pairs if not isinstance(b, torch.SymInt))


def _distinct(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return primes[index % len(primes)]


def _tied(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return primes[0] if loose else primes[index % len(primes)]


def _ones(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return 1 if loose else primes[index % len(primes)]


def _name(symbol: Any) -> str:
    return str(symbol.name)


def _at(fake: Any, at: dict[Any, int]) -> Any:
    """Substitute numbers for the symbols of a fake."""
    if isinstance(fake, (list, tuple)):
        return [_at(element, at) for element in fake]
    if isinstance(fake, AbstractTensor):
        return AbstractTensor(fake.dtype, [max(int(_at(size, at)), 0) for size in fake.shape])
    if not isinstance(fake, NUMBERS):
        return fake
    value = fake.node.expr.xreplace(at)
    return bool(value) if isinstance(fake, torch.SymBool) else float(value) if isinstance(fake, torch.SymFloat) else int(value)
