"""The table of functions that replace torch's where a number is computed."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

Number: TypeAlias = Any
"""A Python number, torch's symbolic one, or a 0-d tensor, which a trace has in its place."""


def is_computed(number: Any) -> bool:
    """Return whether a number, or one of a list, is computed in the capture."""
    if isinstance(number, (list, tuple)):
        return any(map(is_computed, number))
    if isinstance(number, torch.Tensor):
        return number.dim() == 0 and torch._C._is_tracing()
    return isinstance(number, (torch.SymFloat, torch.SymInt))


def as_tensor(number: Number, like: torch.Tensor) -> torch.Tensor:
    """Convert a number to a 0-d tensor with the dtype and device of another tensor."""
    return torch.scalar_tensor(number, dtype=like.dtype, device=like.device)


@dataclasses.dataclass(frozen=True, eq=False)  # compared by identity: a hash of the signature takes long
class _Composition:
    """A composition of operators that take computed numbers.

    `places` are the places (owner, name) of torch's function, and `numbers` the parameters that may be computed. `tensors` is
    whether torch's function has an overload for 0-d tensors.
    """

    places: tuple[tuple[Any, str], ...]
    tensors: bool
    function: Callable[..., Any]
    numbers: frozenset[str]
    signature: inspect.Signature

    def __call__(self, original: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Call the composition if one of its numbers is computed, else `original`."""
        if (self.tensors and torch._C._is_tracing()) or not any(map(is_computed, (*args, *options.values()))):
            return original(*args, **options)
        given = {"input" if name == "self" else name: value for name, value in options.items()}
        try:
            bound = self.signature.bind(*args, **given).arguments
        except TypeError:  # an overload that the composition does not have
            return original(*args, **options)
        if not any(is_computed(bound[name]) for name in self.numbers & bound.keys()):
            return original(*args, **options)
        result = self.function(*args, **given)
        return original(*args, **options) if result is NotImplemented else result

    def instead(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Replace a call of torch's function, see `ExportContext.redirect`."""
        return self(original, args, options)


class Compositions(dict[Any, _Composition]):
    """Compositions by the function of torch that each replaces."""

    def __call__(
        self, numbers: str, *places: tuple[Any, str], tensors: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a composition for torch's functions at (owner, name).

        `numbers` are the names of the parameters that may be computed. A composition may return NotImplemented. With `tensors`,
        torch's function takes 0-d tensors itself.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            made = _Composition(places, tensors, function, frozenset(numbers.split()), inspect.signature(function))
            for owner, name in places:
                if hasattr(owner, name):  # torch 2.11 to 2.15 lack some
                    self[getattr(owner, name)] = made
            return function

        return register
