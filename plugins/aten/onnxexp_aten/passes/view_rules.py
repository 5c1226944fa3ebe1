"""Compositions of Transpose, Reshape, Unsqueeze, Squeeze and Slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnxexp.graph import Dim, SymbolicSize
from onnxexp.rewriting import Rewriter
from onnxexp_aten.passes.matching import only_used_by, producer, source_of
from onnxexp_aten.support.axis_products import partition


def known_dims(value: ir.Value | None) -> tuple[Dim, ...]:
    """Return the sizes of a value.

    Raises Unfit for unknown ranks and for empty tensors, since no Reshape target can express a size 0.
    """
    sizes = Rewriter.dims(value)
    if sizes is None or 0 in sizes:
        raise Rewriter.Unfit
    return sizes


def perm_of(node: ir.Node) -> list[int]:
    """Return the permutation of a Transpose; raise Unfit where it is left out."""
    if "perm" not in node.attributes:
        raise Rewriter.Unfit
    return list(node.attributes["perm"].as_ints())


# Axes


def transposed(rewriter: Rewriter, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """Transpose, and merge a Transpose that made `x`.

    A Transpose of a Reshape that flattened axes moves before the Reshape, where the next reshape can cancel it.
    """
    perm = list(perm)
    if perm == list(range(len(perm))):
        return x
    node = producer(x, "Transpose", "Reshape")
    if node is not None and node.op_type == "Transpose":
        inner = perm_of(node)
        return transposed(rewriter, source_of(node), [inner[axis] for axis in perm])
    sizes = known_dims(x)
    if node is not None and only_used_by(x, Rewriter.VIEWS):
        before = known_dims(source_of(node))
        groups = partition(before, sizes)
        if groups is not None and len(before) > len(groups):
            moved = transposed(rewriter, source_of(node), [axis for place in perm for axis in groups[place]])
            return reshaped(rewriter, moved, [sizes[axis] for axis in perm])
    return rewriter.one("Transpose", [x], {"perm": perm}, [sizes[axis] for axis in perm])


def _given_axes(node: ir.Node, rank: int) -> list[int]:
    axes = Rewriter.constant_ints(node, 1, "axes")
    if not axes:
        raise Rewriter.Unfit
    return sorted(axis % rank for axis in axes)


def unsqueezed_by(rewriter: Rewriter, node: ir.Node) -> ir.Value:
    """Compose an Unsqueeze."""
    count = len(rewriter.constant_ints(node, 1, "axes") or ())
    sizes = known_dims(node.inputs[0])
    return unsqueezed(rewriter, source_of(node), _given_axes(node, len(sizes) + count))


def unsqueezed(rewriter: Rewriter, x: ir.Value, axes: list[int]) -> ir.Value:
    """Unsqueeze at sorted axes of the result, and merge an Unsqueeze that made `x`."""
    if not axes:
        return x
    sizes = known_dims(x)
    kept = [axis for axis in range(len(sizes) + len(axes)) if axis not in axes]
    node = producer(x, "Unsqueeze")
    if node is not None:
        inner = _given_axes(node, len(sizes))
        return unsqueezed(rewriter, source_of(node), sorted([*axes, *(kept[axis] for axis in inner)]))
    after: list[Dim] = [1] * (len(sizes) + len(axes))
    for axis, size in zip(kept, sizes, strict=True):
        after[axis] = size
    return rewriter.with_ints("Unsqueeze", x, "axes", axes, 13, after)


def squeezed_by(rewriter: Rewriter, node: ir.Node) -> ir.Value:
    """Compose a Squeeze."""
    return _squeezed(rewriter, source_of(node), _given_axes(node, len(known_dims(node.inputs[0]))))


def _squeezed(rewriter: Rewriter, x: ir.Value, axes: list[int]) -> ir.Value:
    """Squeeze at sorted axes; merge a Squeeze before it, and cancel an Unsqueeze."""
    if not axes:
        return x
    sizes = known_dims(x)
    node = producer(x, "Squeeze", "Transpose", "Unsqueeze")
    if node is not None and node.op_type == "Squeeze":
        rank = len(known_dims(source_of(node)))
        inner = _given_axes(node, rank)
        kept = [axis for axis in range(rank) if axis not in inner]
        return _squeezed(rewriter, source_of(node), sorted([*inner, *(kept[axis] for axis in axes)]))
    if (
        node is not None
        and node.op_type == "Transpose"
        and producer(node.inputs[0], "Unsqueeze")
        and only_used_by(x, Rewriter.VIEWS)
    ):
        perm = perm_of(node)  # the Squeeze moves before the Transpose, where it cancels the Unsqueeze
        gone = sorted(perm[axis] for axis in axes)
        left = [axis for axis in range(len(perm)) if axis not in gone]
        rest = _squeezed(rewriter, source_of(node), gone)
        return transposed(rewriter, rest, [left.index(axis) for axis in perm if axis not in gone])
    inner = _given_axes(node, len(sizes)) if node is not None and node.op_type == "Unsqueeze" else []
    left = [axis for axis in range(len(sizes)) if axis not in axes]
    if node is None or not set(axes) & set(inner):
        return rewriter.with_ints("Squeeze", x, "axes", axes, 13, [sizes[axis] for axis in left])
    kept = [axis for axis in range(len(sizes)) if axis not in inner]
    smaller = _squeezed(rewriter, source_of(node), [kept.index(axis) for axis in axes if axis not in inner])
    return unsqueezed(rewriter, smaller, [left.index(axis) for axis in inner if axis not in axes])


# Reshape


def reshaped_by(rewriter: Rewriter, node: ir.Node) -> ir.Value:
    """Compose a Reshape, but not one whose rank depends on a call."""
    if node.attributes.get_int("allowzero", 0) or producer(node.inputs[1], "Compress") is not None:
        raise Rewriter.Unfit
    return reshaped(rewriter, source_of(node), known_dims(node.outputs[0]), node.inputs[1])


def reshaped(rewriter: Rewriter, x: ir.Value, sizes: Sequence[Dim], given: ir.Value | None = None) -> ir.Value:
    """Reshape `x`, and merge reshapes before it; `given` is a target that fits `x`.

    The target is a constant wherever 0 (copy) and one -1 suffice. A computed target gives way only to one that is right where a
    size is 0.
    """
    sizes = tuple(sizes)
    computed = given is not None and given.const_value is None
    chain = list(_reshape_chain(x))
    for source in reversed(chain):
        if rewriter.dims(source) == sizes:
            return source
    for source in reversed(chain):
        moved = _before_transpose(rewriter, source, sizes)
        if moved is not None:
            return moved
    for source in reversed(chain):
        target = _target(known_dims(source), sizes)
        if target is not None and (given is None or source is not x) and not (computed and -1 in target and 0 in target):
            return rewriter.one("Reshape", [source, rewriter.constant(target)], sizes=sizes)
    if given is None:
        raise Rewriter.Unfit
    return rewriter.one("Reshape", [x, given], sizes=sizes)


def _before_transpose(rewriter: Rewriter, x: ir.Value, sizes: tuple[Dim, ...]) -> ir.Value | None:
    """Exchange a Reshape with the Transpose before it, where that helps.

    It helps where axes are only split, or where merging them cancels a Reshape before the Transpose.
    """
    node = producer(x, "Transpose")
    if node is None:
        return None
    source, perm, before = source_of(node), perm_of(node), known_dims(x)
    groups = partition(sizes, before)
    if groups is not None and len(sizes) > len(groups) and only_used_by(x, Rewriter.VIEWS):
        order = [axis for place in range(len(perm)) for axis in groups[perm.index(place)]]
        finer = [sizes[axis] for axis in order]
        if any(_target(known_dims(base), finer) is not None for base in _reshape_chain(source)):
            return transposed(rewriter, reshaped(rewriter, source, finer), [order.index(axis) for axis in range(len(sizes))])
    groups = partition(before, sizes)
    if groups is not None and len(groups) < len(perm):
        joined = sorted([perm[axis] for axis in group] for group in groups)
        coarser = [sizes[groups.index([perm.index(axis) for axis in group])] for group in joined]
        consecutive = [axis for group in joined for axis in group] == list(range(len(perm)))
        if consecutive and any(rewriter.dims(base) == tuple(coarser) for base in _reshape_chain(source)):
            whole = reshaped(rewriter, source, coarser)
            return transposed(rewriter, whole, [joined.index([perm[axis] for axis in group]) for group in groups])
    return None


def _reshape_chain(x: ir.Value) -> Iterator[ir.Value]:
    """Yield `x` and the sources of its reshapes, back to the first."""
    value: ir.Value | None = x
    while value is not None and Rewriter.dims(value) is not None:
        yield value
        node = producer(value, "Reshape", "Unsqueeze", "Squeeze", "Flatten")
        value = None if node is None else node.inputs[0]


def _target(before: Sequence[Dim], sizes: Sequence[Dim]) -> list[int] | None:
    """Return a Reshape's constant target, or None with two sizes known at run time."""
    copied = [isinstance(size, SymbolicSize) and axis < len(before) and before[axis] == size for axis, size in enumerate(sizes)]
    target = [size if isinstance(size, int) else 0 if same else -1 for size, same in zip(sizes, copied, strict=True)]
    return target if target.count(-1) <= 1 else None


# Slice


def sliced(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Merge a constant Slice with the constant Slice of other axes before it."""
    inner = producer(node.inputs[0], "Slice")
    outer_slices, inner_slices = _slices(node), None if inner is None else _slices(inner)
    if inner is None or outer_slices is None or inner_slices is None or outer_slices.keys() & inner_slices.keys():
        return None
    slices = {**inner_slices, **outer_slices}
    starts, ends, steps = (list(column) for column in zip(*slices.values(), strict=True))
    lists = {"starts": starts, "ends": ends, "axes": list(slices), **({} if set(steps) == {1} else {"steps": steps})}
    sizes = rewriter.dims(node.outputs[0])
    if rewriter.opset < 10:  # attributes before opset 10
        return rewriter.one("Slice", [source_of(inner)], lists, sizes)
    return rewriter.one("Slice", [source_of(inner), *map(rewriter.constant, lists.values())], sizes=sizes)


def _slices(node: ir.Node) -> dict[int, tuple[int, int, int]] | None:
    starts, ends = Rewriter.constant_ints(node, 1, "starts"), Rewriter.constant_ints(node, 2, "ends")
    axes, steps = Rewriter.constant_ints(node, 3, "axes"), Rewriter.constant_ints(node, 4, "steps")
    if starts is None or ends is None or axes is None or min(axes) < 0 or (steps is None and len(node.inputs) > 4):
        return None
    return dict(zip(axes, zip(starts, ends, steps or [1] * len(axes), strict=True), strict=True))
