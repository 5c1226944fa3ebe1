"""What a Function returns whose forward fake tensors cannot run (NumPy, values looked at).

It is run on real tensors of the example's sizes, and once more for each dynamic size made one larger, which tells how the sizes
of its results follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp_autograd.torch_internals import disable_current_modes

__all__ = ["Learned", "learn"]

Run = Callable[[Sequence[Any]], Sequence[torch.Tensor]]
"""The forward: from what varies among the arguments to the tensors that come out."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A dynamic size: where the call has it (number of the argument, axis; -1 where the argument itself is the size), and the
    example's."""

    argument: int
    axis: int
    example: int

    def of(self, varying: Sequence[Any]) -> Any:
        given = varying[self.argument]
        return given if self.axis < 0 else given.shape[self.axis]


@dataclasses.dataclass(frozen=True)
class Learned:
    """The results' dtypes and sizes; `slopes` says by how much each size grows with each dynamic size."""

    sizes: tuple[Size, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    slopes: tuple[tuple[tuple[int, ...], ...], ...]

    def results(self, varying: Sequence[Any]) -> list[torch.Tensor]:
        """Empty tensors of the sizes that these arguments lead to."""
        like = next(each for each in varying if isinstance(each, torch.Tensor))
        grown = [size.of(varying) - size.example for size in self.sizes]
        made = []
        for shape, slopes, dtype in zip(self.shapes, self.slopes, self.dtypes, strict=True):
            full = [
                base + sum(slope * growth for slope, growth in zip(per_size, grown, strict=True) if slope)
                for base, per_size in zip(shape, slopes, strict=True)
            ]
            made.append(like.new_empty(full, dtype=dtype))
        return made


def learn(run: Run, varying: Sequence[Any]) -> Learned | None:
    """None where a size is not known, or the forward takes no tensor; raises what the forward raises."""
    sizes = _sizes(varying)
    if sizes is None or not any(isinstance(each, torch.Tensor) for each in varying):
        return None
    names = [_name(each.of(varying)) for each in sizes]
    with disable_current_modes():
        base = run(_real(varying, {}))
        others = [run(_real(varying, {name: 1})) for name in names]
    slopes = tuple(
        tuple(tuple(other[number].shape[axis] - size for other in others) for axis, size in enumerate(tensor.shape))
        for number, tensor in enumerate(base)
    )
    shapes = tuple(tuple(int(size) for size in tensor.shape) for tensor in base)
    return Learned(tuple(sizes), shapes, tuple(tensor.dtype for tensor in base), slopes)


def _name(size: Any) -> str:
    return str(size.node.expr)


def _sizes(varying: Sequence[Any]) -> list[Size] | None:
    """Each dynamic size once."""
    found: dict[str, Size] = {}
    for number, each in enumerate(varying):
        pairs = enumerate(each.shape) if isinstance(each, torch.Tensor) else [(-1, each)]
        for axis, size in pairs:
            if isinstance(size, torch.SymInt):
                hint = size.node.hint
                if hint is None:
                    return None
                found.setdefault(_name(size), Size(number, axis, int(hint)))
    return list(found.values())


def _real(varying: Sequence[Any], growth: dict[str, int]) -> list[Any]:
    def number(size: Any) -> Any:
        return size if not isinstance(size, torch.SymInt) else int(size.node.hint) + growth.get(_name(size), 0)

    return [
        torch.zeros([number(size) for size in each.shape], dtype=each.dtype) if isinstance(each, torch.Tensor) else number(each)
        for each in varying
    ]
