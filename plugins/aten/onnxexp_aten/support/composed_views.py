"""Views composed with the view they apply to.

Transposes, reshapes, squeezes and slices merge with the node that made their input. A Reshape gets a static target wherever
one exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxexp import Builder, Producer, Tensor
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.producers import given_ints, made_by, unused
from onnxexp_aten.support.run_time_sizes import run_time_size, size_at, vector, with_shape
from onnxexp_aten.support.symbolic_sizes import Dim, partition

__all__ = ["END", "expanded", "permuted", "reshaped", "sliced", "squeezed", "swapped", "unsqueezed"]

END = 2**63 - 1
"""Slice end beyond any axis."""


# Axes


def permuted(op: Builder, x: Tensor, perm: Sequence[int]) -> Tensor:
    """Transpose, merged with a Transpose that made `x`.

    The identity adds no node. A Transpose of a Reshape that flattened axes moves before the Reshape, where the next reshape
    can cancel it.
    """
    perm = list(perm)
    if perm == list(range(len(perm))):
        return x
    found = made_by(op, x, "Transpose", "Reshape")
    if found is not None and found[0].operator == "Transpose":
        inner = list(found[0].attributes["perm"])
        return permuted(op, found[1], [inner[axis] for axis in perm])
    if found is not None and found[1].shape is not None and x.shape is not None and unused(x):
        groups = partition(found[1].shape, x.shape)
        if groups is not None and len(found[1].shape) > len(groups):
            moved = permuted(op, found[1], [axis for place in perm for axis in groups[place]])
            return reshaped(op, moved, [x.shape[axis] for axis in perm])
    made = op.Transpose(x, perm=perm)
    return made if x.shape is None else with_shape(made, [x.shape[axis] for axis in perm])


def swapped(op: Builder, x: Tensor, one: int, other: int) -> Tensor:
    """Exchange two axes, which may count from the end."""
    perm = list(range(rank_of(op, x)))
    perm[one], perm[other] = perm[other], perm[one]
    return permuted(op, x, perm)


def unsqueezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Unsqueeze at axes of the result, merged with an Unsqueeze that made `x`."""
    axes = sorted(axes)
    if not axes:
        return x
    found = made_by(op, x, "Unsqueeze")
    if found is not None:
        node, source = found
        inner = given_ints(node, 1, "axes")
        if inner is not None and min(inner) >= 0:
            kept = [axis for axis in range(rank_of(op, x) + len(axes)) if axis not in axes]
            return unsqueezed(op, source, [*axes, *(kept[axis] for axis in inner)])
    return op.Unsqueeze(x, axes=axes)


def squeezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Squeeze, merged with a Squeeze that made `x`; cancels an Unsqueeze."""
    axes = sorted(axes)
    if not axes:
        return x
    found = made_by(op, x, "Squeeze")
    inner = None if found is None else given_ints(found[0], 1, "axes")
    if found is not None and inner is not None and min(inner) >= 0:
        kept = [axis for axis in range(rank_of(op, found[1])) if axis not in inner]
        return squeezed(op, found[1], [*inner, *(kept[axis] for axis in axes)])
    found = made_by(op, x, "Transpose", "Unsqueeze")
    if found is not None and found[0].operator == "Transpose":
        return _squeezed_before(op, x, axes, *found)
    inner = None if found is None else given_ints(found[0], 1, "axes")
    if found is None or inner is None or min(inner) < 0 or not set(axes) & set(inner):
        return op.Squeeze(x, axes=axes)
    kept = [axis for axis in range(rank_of(op, x)) if axis not in inner]
    smaller = squeezed(op, found[1], [kept.index(axis) for axis in axes if axis not in inner])
    left = [axis for axis in range(rank_of(op, x)) if axis not in axes]
    return unsqueezed(op, smaller, [left.index(axis) for axis in inner if axis not in axes])


def _squeezed_before(op: Builder, x: Tensor, axes: list[int], node: Producer, source: Tensor) -> Tensor:
    """Squeeze of a Transpose, moved before it where it cancels an Unsqueeze."""
    if made_by(op, source, "Unsqueeze") is None or not unused(x):
        return op.Squeeze(x, axes=axes)
    perm = list(node.attributes["perm"])
    gone = [perm[axis] for axis in axes]
    left = [axis for axis in range(len(perm)) if axis not in gone]
    return permuted(op, squeezed(op, source, gone), [left.index(axis) for axis in perm if axis not in gone])


# Reshape


def reshaped(op: Builder, x: Tensor, sizes: Sequence[Dim], given: Sequence[Any] | None = None) -> Tensor:
    """Reshape `x`; `given` are the ints and tensors in the call.

    Consecutive reshapes merge. The target is a constant wherever 0 (copy) and one -1 suffice.
    """
    sizes = tuple(sizes)
    chain = list(_reshape_chain(op, x))
    for source in reversed(chain):
        if source.shape == sizes:
            return source
    if 0 in sizes:
        return filled(op, _run_time_sizes(op, sizes, chain, given), 0, x.dtype)
    for source in reversed(chain):
        moved = _before_transpose(op, source, sizes)
        if moved is not None:
            return moved
    for source in reversed(chain):
        target, missing = _target(source.shape, sizes, given)
        if not missing:
            return with_shape(op.Reshape(source, target), sizes)
    target, missing = _target(x.shape, sizes, given)
    for axis in missing:
        target[axis] = run_time_size(op, sizes[axis], chain, given[axis] if given else None)
    return with_shape(op.Reshape(x, vector(op, target)), sizes)


def _run_time_sizes(op: Builder, sizes: Sequence[Dim], chain: Sequence[Tensor], given: Sequence[Any] | None) -> list[Any]:
    return [run_time_size(op, size, chain, given[axis] if given else None) for axis, size in enumerate(sizes)]


def _before_transpose(op: Builder, x: Tensor, sizes: Sequence[Dim]) -> Tensor | None:
    """Exchange a Reshape with the Transpose before it, where that helps.

    It helps where axes are only split, or where merging them cancels a Reshape before the Transpose.
    """
    found = made_by(op, x, "Transpose")
    if found is None or x.shape is None or found[1].shape is None:
        return None
    node, source = found
    perm = list(node.attributes["perm"])
    groups = partition(sizes, x.shape)
    if groups is not None and len(sizes) > len(groups) and unused(x):
        finer = [sizes[axis] for place in range(len(perm)) for axis in groups[perm.index(place)]]
        if any(not _target(base.shape, finer, None)[1] for base in _reshape_chain(op, source)):
            order = [axis for place in range(len(perm)) for axis in groups[perm.index(place)]]
            return permuted(op, reshaped(op, source, finer), [order.index(axis) for axis in range(len(sizes))])
    groups = partition(x.shape, sizes)
    if groups is not None and len(groups) < len(perm):
        joined = sorted([perm[axis] for axis in group] for group in groups)
        coarser = [sizes[groups.index([perm.index(axis) for axis in group])] for group in joined]
        consecutive = [axis for group in joined for axis in group] == list(range(len(perm)))
        if consecutive and any(base.shape == tuple(coarser) for base in _reshape_chain(op, source)):
            return permuted(op, reshaped(op, source, coarser), [joined.index([perm[a] for a in group]) for group in groups])
    return None


def _reshape_chain(op: Builder, x: Tensor) -> Iterator[Tensor]:
    """`x` and the sources of its reshapes, back to the first."""
    found: tuple[Producer | None, Tensor] | None = (None, x)
    while found is not None and found[1].shape is not None:
        yield found[1]
        found = made_by(op, found[1], "Reshape", "Unsqueeze", "Squeeze", "Flatten")


def _target(shape: Sequence[Dim] | None, sizes: Sequence[Dim], given: Sequence[Any] | None) -> tuple[list[Any], list[int]]:
    """Target of a Reshape, and its axes known only at run time."""
    target: list[Any] = list(sizes)
    for axis, size in enumerate(sizes):
        if isinstance(size, str) and shape is not None and axis < len(shape) and shape[axis] == size:
            target[axis] = 0
    missing = [axis for axis, size in enumerate(target) if isinstance(size, str)]
    if missing:
        inferred = next((axis for axis in missing if given is not None and not isinstance(given[axis], Tensor)), missing[-1])
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
    if all(isinstance(size, int) and size == 1 for size in target):
        return unsqueezed(op, x, range(lead))
    return op.Expand(x, vector(op, target))


# Slice


def sliced(op: Builder, x: Tensor, axis: int, start: Any, end: Any, step: int = 1) -> Tensor:
    """Slice one axis, merged with a constant Slice that made `x`."""
    if op.opset < 10 and step == 1 and not op.is_static([start, end]):  # bounds are attributes of Slice before opset 10
        return _gathered(op, x, axis, start, end)
    slices: dict[int, tuple[Any, Any, int]] = {axis: (start, end, step)}
    found = made_by(op, x, "Slice")
    if found is not None and op.is_static([start, end]):
        inner = _slices(*found)
        if inner is not None and axis not in inner:
            x, slices = found[1], {**inner, **slices}
    starts, ends, steps = (list(column) for column in zip(*slices.values(), strict=True))
    return op.Slice(x, vector(op, starts), vector(op, ends), axes=list(slices), steps=None if set(steps) == {1} else steps)


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


def _slices(node: Producer, source: Tensor) -> dict[int, tuple[int, int, int]] | None:
    starts, ends = given_ints(node, 1, "starts"), given_ints(node, 2, "ends")
    axes, steps = given_ints(node, 3, "axes"), given_ints(node, 4, "steps")
    if starts is None or ends is None or axes is None or (steps is None and len(node.inputs) > 4):
        return None
    if min(axes) < 0:
        return None
    return dict(zip(axes, zip(starts, ends, steps or [1] * len(axes), strict=True), strict=True))
