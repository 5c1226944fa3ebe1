"""Find the result shapes of a forward that cannot run on fake tensors.

The forward runs on zeros of the example's sizes, then once for each dynamic size increased by one. The differences are the slopes
of the result sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp_autograd.torch_internals import disable_current_modes

Run = Callable[[Sequence[Any]], Sequence[torch.Tensor]]
"""A forward as a function from the varying arguments to its result tensors."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A dynamic size of a call.

    Attributes:
        argument: The index of the varying argument.
        axis: The axis of the argument; -1 if the argument itself is the size.
        example: The size in the example.
    """

    argument: int
    axis: int
    example: int

    def of(self, varying: Sequence[Any]) -> Any:
        """Return the size in a call with these varying arguments."""
        argument = varying[self.argument]
        return argument if self.axis < 0 else argument.shape[self.axis]


@dataclasses.dataclass(frozen=True)
class ResultShapes:
    """Dtypes and shapes of the results, as a linear function of the dynamic sizes.

    Attributes:
        sizes: The dynamic sizes of the call.
        shapes: The shape of each result at the example's sizes.
        dtypes: The dtype of each result.
        slopes: For each result and axis, the growth of its size per dynamic size.
    """

    sizes: tuple[Size, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    slopes: tuple[tuple[tuple[int, ...], ...], ...]

    def results(self, varying: Sequence[Any]) -> list[torch.Tensor]:
        """Return empty tensors shaped like the results for these arguments."""
        like = next(each for each in varying if isinstance(each, torch.Tensor))
        growths = [size.of(varying) - size.example for size in self.sizes]
        results = []
        for shape, slopes, dtype in zip(self.shapes, self.slopes, self.dtypes, strict=True):
            full = [
                base + sum(slope * growth for slope, growth in zip(per_size, growths, strict=True) if slope)
                for base, per_size in zip(shape, slopes, strict=True)
            ]
            results.append(like.new_empty(full, dtype=dtype))
        return results


def find_result_shapes(run: Run, varying: Sequence[Any]) -> ResultShapes | None:
    """Run a forward at several sizes to find the shapes of its results.

    Returns None if a size has no value in the example or no argument is a tensor. Exceptions of the forward pass through.
    """
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
    return ResultShapes(tuple(sizes), shapes, tuple(tensor.dtype for tensor in base), slopes)


def _name(size: Any) -> str:
    return str(size.node.expr)


def _sizes(varying: Sequence[Any]) -> list[Size] | None:
    """Return each dynamic size once, or None if one has no value in the example."""
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
