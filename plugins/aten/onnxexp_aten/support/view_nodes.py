"""Views as plain nodes, which `ComposeViews` merges; constant Reshape targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import run_time_size, size_at, vector, with_shape

END = 2**63 - 1
"""Slice end beyond any axis."""


# Axes


def permuted(op: Builder, x: Tensor, perm: Sequence[int]) -> Tensor:
    """Transpose; the identity adds no node."""
    perm = list(perm)
    if perm == list(range(len(perm))):
        return x
    made = op.Transpose(x, perm=perm)
    return made if x.shape is None else with_shape(made, [x.shape[axis] for axis in perm])


def swapped(op: Builder, x: Tensor, one: int, other: int) -> Tensor:
    """Exchange two axes, which may count from the end."""
    perm = list(range(rank_of(op, x)))
    perm[one], perm[other] = perm[other], perm[one]
    return permuted(op, x, perm)


def unsqueezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Unsqueeze at axes of the result."""
    return op.Unsqueeze(x, axes=sorted(axes)) if axes else x


def squeezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Squeeze these axes."""
    return op.Squeeze(x, axes=sorted(axes)) if axes else x


# Reshape


def reshaped(op: Builder, x: Tensor, sizes: Sequence[Dim], given: Sequence[Any] | None = None) -> Tensor:
    """Reshape `x`; `given` are the ints and tensors in the call.

    The target is a constant wherever 0 (copy) and one -1 suffice. Else all its sizes are computed where possible: a -1 beside a
    size that is 0 at run time has no value.
    """
    sizes = tuple(sizes)
    if x.shape == sizes:
        return x
    if 0 in sizes:
        empty = [run_time_size(op, size, [x], given[axis] if given else None) for axis, size in enumerate(sizes)]
        return filled(op, empty, 0, x.dtype)
    target, missing = _target(x.shape, sizes, given)
    for axis in missing:
        target[axis] = run_time_size(op, sizes[axis], [x], given[axis] if given else None)
    if missing and op.opset >= 14:  # where Reshape has allowzero, see `AllowZeroSizes`; a helper of many symbolics
        target = [_computed(op, x, sizes, given, axis, size) for axis, size in enumerate(target)]
    return with_shape(op.Reshape(x, vector(op, target)), sizes)


def _computed(op: Builder, x: Tensor, sizes: Sequence[Dim], given: Sequence[Any] | None, axis: int, planned: Any) -> Any:
    """Return a size of a Reshape, or `planned` (0 or -1) if it cannot be computed."""
    size = sizes[axis]
    if isinstance(planned, Tensor) or isinstance(size, int):
        return planned
    known = (given is not None and isinstance(given[axis], Tensor)) or size in (x.shape or ()) or op.size_of(size) is not None
    return run_time_size(op, size, [x], given[axis] if given else None) if known else planned


def _target(shape: Sequence[Dim] | None, sizes: Sequence[Dim], given: Sequence[Any] | None) -> tuple[list[Any], list[int]]:
    """Return the target of a Reshape, and its axes known only at run time."""
    target: list[Any] = list(sizes)
    for axis, size in enumerate(sizes):
        if isinstance(size, SymbolicSize) and shape is not None and axis < len(shape) and shape[axis] == size:
            target[axis] = 0
        elif isinstance(size, SymbolicSize) and given is not None and isinstance(given[axis], int) and given[axis] > 0:
            target[axis] = given[axis]  # a number that the frontend read from a tensor has a symbolic size as well
    missing = [axis for axis, size in enumerate(target) if isinstance(size, SymbolicSize)]
    if missing:
        computed = [axis for axis in missing if sizes[axis] not in (shape or ())] if given is None else missing
        inferred = next((axis for axis in computed if given is None or not isinstance(given[axis], Tensor)), missing[-1])
        missing.remove(inferred)
        target[inferred] = -1
    return target, missing


# Expand


def expanded(
    op: Builder, x: Tensor, sizes: Sequence[Dim], given: Sequence[Any] | None = None, others: Sequence[Any] = ()
) -> Tensor:
    """Expand to these sizes; only growing axes get a size.

    `others` are tensors with the symbolic sizes.
    """
    shape = x.shape
    if shape is None:
        return op.Expand(x, vector(op, given or sizes))
    lead = len(sizes) - len(shape)
    target: list[Any] = []
    for axis, size in enumerate(sizes):
        if axis >= lead and shape[axis - lead] == size:
            target.append(1)
        else:
            target.append(run_time_size(op, size, [x, *others], given[axis] if given else None))
    whole = all(isinstance(size, int) and size == 1 for size in target)
    made = unsqueezed(op, x, range(lead)) if whole else op.Expand(x, vector(op, target))
    # an axis of a symbolic size that torch expands to 1 is 1 long, which shape inference does not know
    return with_shape(made, sizes) if any(one == 1 != other for one, other in zip(sizes[lead:], shape, strict=True)) else made


# Slice


def sliced(op: Builder, x: Tensor, axis: int, start: Any, end: Any, step: Any = 1) -> Tensor:
    """Slice one axis."""
    unit = isinstance(step, int) and step == 1
    if op.opset < 10 and unit and not op.is_static([start, end]):  # bounds are attributes of Slice before opset 10
        return _gathered(op, x, axis, start, end)
    return op.Slice(x, vector(op, [start]), vector(op, [end]), axes=[axis], steps=None if unit else vector(op, [step]))


def _gathered(op: Builder, x: Tensor, axis: int, start: Any, end: Any) -> Tensor:
    """Slice with dynamic bounds by Gather, for opsets with static Slice."""
    size = size_at(op, x, axis)
    place = op.Squeeze(op.NonZero(filled(op, [size], 1, torch.float32)), axes=[0])
    inside = op.Less(place, _counted(op, end, size))
    if not (isinstance(start, int) and start == 0):
        inside = op.And(inside, op.Not(op.Less(place, _counted(op, start, size))))
    return op.Gather(x, op.Squeeze(op.NonZero(inside), axes=[0]), axis=axis)


def _counted(op: Builder, bound: Any, size: int | Tensor) -> Any:
    """Count a bound from the front of an axis of this size."""
    if isinstance(bound, Tensor):
        return op.Where(op.Less(bound, 0), op.Add(bound, size), bound)
    return bound if bound >= 0 else op.Add(size, bound)
