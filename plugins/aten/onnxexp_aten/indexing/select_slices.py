"""Select one index of an axis, or split the axis it was reshaped from."""

from __future__ import annotations

from typing import Any

from onnxexp import Builder, Tensor
from onnxexp_aten.support.composed_views import permuted, reshaped
from onnxexp_aten.support.producers import made_by, unused
from onnxexp_aten.support.run_time_sizes import with_shape
from onnxexp_aten.support.symbolic_sizes import partition

__all__ = ["select_slice"]


def select_slice(op: Builder, x: Tensor, axis: int, index: Any) -> Tensor:
    """Select one index of an axis: ``x.select(axis, index)``.

    The index counts from the front, or the target opset's Gather accepts it as it is. Queries, keys and values of one product
    are split with one Split of the product, before any other view.
    """
    if isinstance(index, int) and index >= 0 and unused(x):
        found = made_by(op, x, "Transpose", "Reshape")
        if found is not None and found[0].operator == "Transpose":
            perm = list(found[0].attributes["perm"])
            part = _part(op, found[1], perm[axis], index)
            if part is not None:
                return permuted(op, part, [place - (place > perm[axis]) for place in perm if place != perm[axis]])
        part = _part(op, x, axis, index)
        if part is not None:
            return part
    made = op.Gather(x, index, axis=axis)
    shape = x.shape
    return (
        made
        if shape is None or (isinstance(index, Tensor) and index.rank)
        else with_shape(made, [*shape[:axis], *shape[axis + 1 :]])
    )


def _part(op: Builder, x: Tensor, axis: int, index: int) -> Tensor | None:
    """Select from an axis that a Reshape split off the front of a larger one.

    Returns one output of a Split of the larger axis; None where there is no such Reshape.
    """
    found = made_by(op, x, "Reshape")
    if found is None or x.shape is None or found[1].shape is None or not unused(x):
        return None
    source, sizes = found[1], found[1].shape
    groups = partition(x.shape, sizes)
    place = None if groups is None else next((place for place, group in enumerate(groups) if group[0] == axis), None)
    count = x.shape[axis]
    if groups is None or place is None or len(groups[place]) < 2 or not isinstance(count, int) or count > 4:
        return None
    whole = sizes[place]
    if not isinstance(whole, int):
        return None
    moved = made_by(op, source, "Transpose")
    perm = list(range(len(sizes)))
    if moved is not None and unused(source):
        source, perm = moved[1], list(moved[0].attributes["perm"])
    parts = op.Split(source, [whole // count] * count, axis=perm[place], outputs=count)
    shape = list(source.shape or ())
    shape[perm[place]] = whole // count
    part = permuted(op, with_shape(parts[index], shape), perm)
    return reshaped(op, part, [*x.shape[:axis], *x.shape[axis + 1 :]])
