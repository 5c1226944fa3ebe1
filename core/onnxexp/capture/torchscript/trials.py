"""Sizes that torch's kernels decide by the example (``x[:3]``, broadcasting): tried at a few other sizes instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp.capture.torchscript.outlines import NUMBERS, Outline, symbols_of
from onnxexp.graph import TensorType, Value

if TYPE_CHECKING:
    from onnxexp.capture.torchscript.sizes import Sizes

__all__ = ["UNKNOWN", "Trials", "harmless", "static_truth"]

UNKNOWN = object()
"""The type of something that nothing is known of."""
_TRIALS = ((7, 11, 13, 17, 19, 23), (29, 31, 37, 41, 43, 47), (2, 3, 5, 4, 6, 8), (211, 223, 227, 229, 233, 239))
"""The sizes that are tried."""
_RANKS, _SIZE = (1, 2, 3, 4, 5), 3
"""The ranks that are tried, and every size then."""


class Trials:
    """Runs calls at chosen sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def hold(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], result: Any) -> bool:
        """Whether the sizes that torch found for the example's are right at others: wherever the call is allowed."""
        symbols = sorted(symbols_of(fakes), key=_name)
        for primes in _TRIALS:
            at = {symbol: primes[index % len(primes)] for index, symbol in enumerate(symbols)}
            outcome = self._tried(op, name, fakes, args, at)
            if outcome is not UNKNOWN and not _same_at(result, outcome, at):
                return False
        return True

    def result(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any]) -> Any:
        """What a call gives where its sizes depend on which sizes are the larger: tried at a few sizes.

        What comes out the same is so, what follows a symbol is the symbol, of all else nothing is known.
        """
        sizes = sorted(symbols_of(fakes, tensors=True), key=_name)
        others = sorted(symbols_of(fakes) - set(sizes), key=_name)
        loose = {symbol for symbol in sizes if free_unbacked_symbols(symbol)}
        for tied in (_apart, _tied, _ones):
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

    def of_any_rank(self, op: torch._ops.OpOverload, name: str, args: Sequence[Any]) -> Any:
        """What a call gives for tensors of unknown rank: tried at a few ranks.

        What is the same at each is so: the rank and the dtype, or the dtype alone (a type), or nothing.
        """
        outcomes = []
        for rank in _RANKS:
            fakes = [self._of_rank(arg, rank) for arg in args]
            outcome = self._tried(op, name, fakes, args, dict.fromkeys(symbols_of(fakes), _SIZE))
            if isinstance(outcome, Outline):
                outcomes.append(outcome)
        dtypes, ranks = {outcome.dtype for outcome in outcomes}, {outcome.dim() for outcome in outcomes}
        if len(dtypes) != 1:
            return UNKNOWN
        return self._sizes.tensor(dtypes.pop(), [None] * ranks.pop()) if len(ranks) == 1 else TensorType(dtypes.pop(), None)

    def _of_rank(self, arg: Any, rank: int) -> Any:
        if isinstance(arg, (list, tuple)):
            return [self._of_rank(element, rank) for element in arg]
        if not isinstance(arg, Value):
            return arg
        fake = self._sizes.of(arg)
        if fake is not UNKNOWN or not isinstance(arg.type, TensorType) or arg.type.dtype is None:
            return fake
        return self._sizes.tensor(arg.type.dtype, [_SIZE] * rank)

    def _tried(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], at: dict[Any, int]) -> Any:
        try:
            return self._sizes.call(op, name, [_at(fake, at) for fake in fakes], args)
        except Exception:  # noqa: BLE001 - as above; what the operator refuses at these sizes tells nothing
            return UNKNOWN

    def _agreed(self, outcomes: list[Any], at: list[dict[Any, int]], doubtful: bool) -> Any:
        first = outcomes[0]
        if isinstance(first, (list, tuple)):
            if len({len(outcome) for outcome in outcomes}) > 1:
                return UNKNOWN
            return [self._agreed(list(parts), at, doubtful) for parts in zip(*outcomes, strict=True)]
        if not isinstance(first, Outline):
            return self._sizes.number(self._sizes.type_of(first).kind)  # type: ignore[union-attr]
        if len({(outcome.dtype, outcome.dim()) for outcome in outcomes}) > 1:
            return UNKNOWN
        sizes = [
            self._agreed_size(list(found), at, doubtful) for found in zip(*(outcome.shape for outcome in outcomes), strict=True)
        ]
        return self._sizes.tensor(first.dtype, sizes)

    def _agreed_size(self, found: list[Any], at: list[dict[Any, int]], doubtful: bool) -> Any:
        if any(isinstance(size, torch.SymInt) for size in found) or (doubtful and set(found) == {1}):
            return None
        if len(set(found)) == 1:
            return found[0]
        same = (symbol for symbol in at[0] if [sizes[symbol] for sizes in at] == found)
        symbol = next(same, None)
        if symbol is None:
            return None
        hint = self._sizes.env.backed_var_to_val.get(symbol)
        return self._sizes.env.create_symintnode(symbol, hint=None if hint is None else int(hint))


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


def _same_at(result: Any, outcome: Any, at: dict[Any, int]) -> bool:
    if isinstance(result, (list, tuple)):
        return len(result) == len(outcome) and all(_same_at(a, b, at) for a, b in zip(result, outcome, strict=True))
    if not isinstance(result, Outline):
        return True
    pairs = zip(result.shape, outcome.shape, strict=False)
    return result.dim() == outcome.dim() and all(_at(a, at) == b for a, b in pairs if not isinstance(b, torch.SymInt))


def _apart(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return primes[index % len(primes)]


def _tied(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return primes[0] if loose else primes[index % len(primes)]


def _ones(loose: bool, primes: tuple[int, ...], index: int) -> int:
    return 1 if loose else primes[index % len(primes)]


def _name(symbol: Any) -> str:
    return str(symbol.name)


def _at(fake: Any, at: dict[Any, int]) -> Any:
    """A fake with numbers in the symbols' places."""
    if isinstance(fake, (list, tuple)):
        return [_at(element, at) for element in fake]
    if isinstance(fake, Outline):
        return Outline(fake.dtype, [max(int(_at(size, at)), 0) for size in fake.shape])
    if not isinstance(fake, NUMBERS):
        return fake
    value = fake.node.expr.xreplace(at)
    return bool(value) if isinstance(fake, torch.SymBool) else float(value) if isinstance(fake, torch.SymFloat) else int(value)


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
