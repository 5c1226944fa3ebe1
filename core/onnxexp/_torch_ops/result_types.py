"""Result types of a torch operator, from a run on meta tensors.

Each unknown size has two stand-ins, one for each of two runs. A result size that is equal in both runs is static. A size whose
two values are a pair of stand-ins is that unknown size. Any other is a new unknown size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._builder.tensor import Tensor
from onnxexp._neutral_graph import Dim, ScalarType, TensorType, Value
from onnxexp._symbolic_size import SymbolicSize

_PRIMES = (
    (53, 131), (59, 137), (61, 139), (67, 149), (71, 151), (73, 157), (79, 163), (83, 167), (89, 173), (97, 179), (101, 181),
    (103, 191), (107, 193), (109, 197), (113, 199), (127, 211),
)  # fmt: skip
_FACTOR = 48
"""A factor of all stand-ins, since models halve, quarter or third their sizes."""


class _Sizes:
    """The two stand-ins of each unknown size of one call."""

    def __init__(self) -> None:
        self.numbers: dict[Any, tuple[int, int]] = {}

    def of(self, key: Any, run: int) -> int:
        """Return the stand-in of a size in one of the runs.

        Raises IndexError for too many sizes.
        """
        if key not in self.numbers:
            first, second = _PRIMES[len(self.numbers)]
            self.numbers[key] = _FACTOR * first, _FACTOR * second
        return self.numbers[key][run]

    def matching(self, pair: tuple[int, int], fresh: Callable[[], SymbolicSize]) -> Dim:
        """Return the size with these stand-ins in the two runs, else a fresh one."""
        if pair[0] == pair[1]:
            return pair[0]
        return (
            next((key for key, numbers in self.numbers.items() if numbers == pair and isinstance(key, SymbolicSize)), None)
            or fresh()
        )


def result_types(
    op: torch._ops.OpOverload | None, args: Sequence[Any], fresh: Callable[[], SymbolicSize]
) -> list[TensorType] | None:
    """Compute the result types, a list's elements one by one, or None if torch fails.

    `args` are Values, Tensors and Python constants, all of the schema's; `fresh()` names an unknown size.
    """
    if op is None:
        return None
    sizes = _Sizes()
    try:
        first = second = _run(op, [_meta(arg, sizes, 0) for arg in args])
        if sizes.numbers:
            second = _run(op, [_meta(arg, sizes, 1) for arg in args])
    except Exception:  # noqa: BLE001 - an operator's code may raise anything on meta tensors, a custom operator's too
        return None
    if len(first) != len(second) or any(one.dim() != two.dim() for one, two in zip(first, second, strict=True)):
        return None
    return [
        TensorType(one.dtype, tuple(sizes.matching(pair, fresh) for pair in zip(one.shape, two.shape, strict=True)))
        for one, two in zip(first, second, strict=True)
    ]


def _run(op: torch._ops.OpOverload, args: Sequence[Any]) -> list[torch.Tensor]:
    """Run an operator, with some arguments by name, and return its tensors."""
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
    """Convert an argument to a meta tensor or a plain number."""
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
