"""What a call of a torch operator gives, as torch itself tells: it is run on tensors without contents.

A size that is not known is run with two numbers. What is the same in both runs is the result's own, what follows one of the sizes
is that size, and of anything else nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp.builder.tensor import Tensor
from onnxexp.graph import Dim, ScalarType, TensorType, Value

__all__ = ["result_types"]

_PRIMES = (
    (53, 131), (59, 137), (61, 139), (67, 149), (71, 151), (73, 157), (79, 163), (83, 167), (89, 173), (97, 179), (101, 181),
    (103, 191), (107, 193), (109, 197), (113, 199), (127, 211),
)  # fmt: skip
_FACTOR = 48
"""Every number stands for a size that can be halved, quartered, cut in three: models do so with sizes that vary."""


class _Sizes:
    """The two numbers of each unknown size of one call."""

    def __init__(self) -> None:
        self.numbers: dict[Any, tuple[int, int]] = {}

    def of(self, key: Any, run: int) -> int:
        """The number of an unknown size in one of the runs. Raises IndexError where there are too many."""
        if key not in self.numbers:
            first, second = _PRIMES[len(self.numbers)]
            self.numbers[key] = _FACTOR * first, _FACTOR * second
        return self.numbers[key][run]

    def told(self, pair: tuple[int, int]) -> Dim | None:
        """The size that was these numbers in the two runs; None where none was."""
        if pair[0] == pair[1]:
            return pair[0]
        return next((key for key, numbers in self.numbers.items() if numbers == pair and isinstance(key, str)), None)


def result_types(op: torch._ops.OpOverload | None, args: Sequence[Any], fresh: Any) -> list[TensorType] | None:
    """The types of what comes out, a list's elements one by one; None where torch cannot tell.

    `args` are Values, Tensors and Python constants, all of the schema's; `fresh()` names a size of which nothing is known.
    """
    if op is None:
        return None
    sizes = _Sizes()
    try:
        first, second = (_run(op, [_meta(arg, sizes, run) for arg in args]) for run in (0, 1))
    except Exception:  # noqa: BLE001 - torch refuses the call, or needs contents; a custom operator's code may raise anything
        return None
    if len(first) != len(second) or any(one.dim() != two.dim() for one, two in zip(first, second, strict=True)):
        return None
    return [
        TensorType(one.dtype, tuple(_or_fresh(sizes.told(pair), fresh) for pair in zip(one.shape, two.shape, strict=True)))
        for one, two in zip(first, second, strict=True)
    ]


def _or_fresh(size: Dim | None, fresh: Any) -> Dim:
    named: Dim = fresh() if size is None else size
    return named


def _run(op: torch._ops.OpOverload, args: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that come out; torch takes some arguments by name only."""
    pairs = [
        (argument, torch.device("meta") if argument.name == "device" else arg)
        for argument, arg in zip(op._schema.arguments, args, strict=True)
    ]
    by_name = {argument.name: arg for argument, arg in pairs if argument.kwarg_only}
    returned = op(*(arg for argument, arg in pairs if not argument.kwarg_only), **by_name)
    leaves = pytree.tree_leaves(returned)
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise TypeError("numbers come out")
    return leaves


def _meta(arg: Any, sizes: _Sizes, run: int) -> Any:
    """An argument without contents."""
    if isinstance(arg, (list, tuple)):
        return [_meta(each, sizes, run) for each in arg]
    if not isinstance(arg, (Tensor, Value)):
        return arg
    type_ = arg.type
    if isinstance(type_, ScalarType):
        return type_.kind(sizes.of(type_.expr or id(arg), run))
    if type_.sizes is None or type_.dtype is None:
        raise TypeError("a type is not known")
    known = [each if isinstance(each, int) else sizes.of(each, run) for each in type_.sizes]
    return torch.empty(known, dtype=type_.dtype, device="meta")
