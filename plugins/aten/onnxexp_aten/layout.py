"""Views as the other modules build them: composed with the view they look at, without run-time shapes where any way avoids them.

Sizes are ints and symbols, as `Tensor.shape` has them; the captured program tells them for every result. A size that has to
be computed at run time is taken from the call's own arguments where it is among them, else from a tensor that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.common import rank_of

__all__ = [
    "END",
    "expanded",
    "filled",
    "given_ints",
    "made_by",
    "permuted",
    "reshaped",
    "run_time_size",
    "size_at",
    "sizes_of",
    "sliced",
    "squeezed",
    "swapped",
    "unsqueezed",
    "vector",
    "with_shape",
]

END = 2**63 - 1
"""An end of a slice that no axis reaches."""

Dim: TypeAlias = int | str


def made_by(op: Builder, x: Tensor, *kinds: str) -> tuple[ir.Node, Tensor] | None:
    """The node that makes `x` and that node's first input, where it is one of these ONNX operators."""
    if x.const is not None:
        return None
    node = x.value.producer()
    if node is None or node.domain or node.op_type not in kinds or node.inputs[0] is None:
        return None
    source = op.state.tensors.get(node.inputs[0])
    return None if source is None else (node, source)


def given_ints(node: ir.Node, index: int, name: str) -> list[int] | None:
    """A node's constant integers, be they its input at `index` or its attribute `name`; None where not constant."""
    if name in node.attributes:
        return list(node.attributes[name].as_ints())
    value = node.inputs[index] if index < len(node.inputs) else None
    known = None if value is None else value.const_value
    return None if known is None else [int(element) for element in known.numpy().reshape(-1)]


# Sizes


def with_shape(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """`x`, of which these sizes are known: ONNX's own inference loses names of sizes where operands are broadcast."""
    x.stamp(dataclasses.replace(x.type, sizes=tuple(sizes)))
    return x


def sizes_of(op: Builder, index: int = 0) -> tuple[Dim, ...] | None:
    """The sizes that the captured program knows of the node's output."""
    sizes = op.node.outputs[index].type.sizes
    return None if sizes is None else tuple(sizes)


def size_at(op: Builder, x: Tensor, axis: int) -> int | Tensor:
    """One size: an int where it is static, else a 0-d int64 tensor."""
    axis = axis + rank_of(op, x) if axis < 0 else axis
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(size, int):
        return size
    for tensor in _inputs(op):  # one source for one size, so that the nodes are shared
        if tensor.known_shape is not None and size in tensor.known_shape:
            x, axis = tensor, tensor.known_shape.index(size)
            break
    return op.Gather(op.Shape(x), axis, axis=0)


def _inputs(op: Builder) -> list[Tensor]:
    scope = op.state.scope
    while scope.parent is not None:
        scope = scope.parent
    return [op.state.tensors[value] for value in scope.inputs]


def vector(op: Builder, sizes: Sequence[Any]) -> Any:
    """Sizes as a list that becomes a 1-D tensor; one that a Gather reads from a shape is read as a vector at once."""
    return [_as_vector(op, size) if isinstance(size, Tensor) and size.rank == 0 else size for size in sizes]


def _as_vector(op: Builder, size: Tensor) -> Tensor:
    found = made_by(op, size, "Gather")
    index = None if found is None else given_ints(found[0], 1, "")
    shape = None if found is None else made_by(op, found[1], "Shape")
    if found is None or shape is None or index is None or shape[0].attributes:
        return size
    if op.opset >= 15:
        return op.Shape(shape[1], start=index[0], end=index[0] + 1)
    return op.Gather(found[1], index, axis=0)


def run_time_size(op: Builder, dim: Dim, candidates: Sequence[Any], given: Any = None) -> int | Tensor:
    """A size that may be symbolic, from the call's argument or from the first tensor that has it."""
    if isinstance(dim, int):
        return dim
    if isinstance(given, Tensor):
        return given
    for tensor in candidates:
        if isinstance(tensor, Tensor) and tensor.shape is not None and dim in tensor.shape:
            return size_at(op, tensor, tensor.shape.index(dim))
    raise op.error(f"the size {dim} is not a size of any of the call's arguments")


# Axes


def permuted(op: Builder, x: Tensor, perm: Sequence[int]) -> Tensor:
    """Transpose; of a Transpose it is one, and none where the axes stay as they are."""
    perm = list(perm)
    if perm == list(range(len(perm))):
        return x
    found = made_by(op, x, "Transpose")
    if found is None:
        return op.Transpose(x, perm=perm)
    node, source = found
    inner = list(node.attributes["perm"].as_ints())
    return permuted(op, source, [inner[axis] for axis in perm])


def swapped(op: Builder, x: Tensor, one: int, other: int) -> Tensor:
    """Two axes exchanged; they may count from the end."""
    perm = list(range(rank_of(op, x)))
    perm[one], perm[other] = perm[other], perm[one]
    return permuted(op, x, perm)


def unsqueezed(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Unsqueeze at axes of the result; together with one that made `x`."""
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
    """Squeeze of these axes, which takes back an Unsqueeze that made `x`."""
    axes = sorted(axes)
    if not axes:
        return x
    found = made_by(op, x, "Unsqueeze")
    inner = None if found is None else given_ints(found[0], 1, "axes")
    if found is None or inner is None or min(inner) < 0 or not set(axes) & set(inner):
        return op.Squeeze(x, axes=axes)
    kept = [axis for axis in range(rank_of(op, x)) if axis not in inner]
    smaller = squeezed(op, found[1], [kept.index(axis) for axis in axes if axis not in inner])
    left = [axis for axis in range(rank_of(op, x)) if axis not in axes]
    return unsqueezed(op, smaller, [left.index(axis) for axis in inner if axis not in axes])


# Reshape


def reshaped(op: Builder, x: Tensor, sizes: Sequence[Dim], given: Sequence[Any] | None = None) -> Tensor:
    """`x` with these sizes; `given` are the ints and tensors that the call has for them.

    A reshape of a reshape is one. The target is a constant wherever 0 (as the input has it) and one -1 can say it.
    """
    sizes = tuple(sizes)
    chain = list(_reshape_chain(op, x))
    for source in reversed(chain):
        if source.shape == sizes:
            return source
    if 0 in sizes:
        return filled(op, [run_time_size(op, size, chain, given[i] if given else None) for i, size in enumerate(sizes)], 0, x.dtype)
    for source in reversed(chain):
        target, missing = _target(source.shape, sizes, given)
        if not missing:
            return op.Reshape(source, target)
    target, missing = _target(x.shape, sizes, given)
    for axis in missing:
        target[axis] = run_time_size(op, sizes[axis], chain, given[axis] if given else None)
    return op.Reshape(x, vector(op, target))


def _reshape_chain(op: Builder, x: Tensor) -> Iterator[Tensor]:
    """`x`, and what it is a reshape of, back to the first."""
    found: tuple[ir.Node, Tensor] | None = (None, x)  # type: ignore[assignment]
    while found is not None and found[1].shape is not None:
        yield found[1]
        found = made_by(op, found[1], "Reshape", "Unsqueeze", "Squeeze", "Flatten")


def _target(shape: Sequence[Dim] | None, sizes: Sequence[Dim], given: Sequence[Any] | None) -> tuple[list[Any], list[int]]:
    """Reshape's target, and the axes of it that only the run time knows."""
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
    """Broadcast to these sizes; only the axes that grow are named. `others` are tensors that have the symbolic ones."""
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
    """One axis' slice, in one node with a constant slice of other axes that made `x`."""
    if op.opset < 10 and step == 1 and not op.is_static([start, end]):
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
    """A slice with bounds of run time for opsets whose Slice has them as attributes: the places between them, gathered."""
    size = size_at(op, x, axis)
    place = op.Squeeze(op.NonZero(filled(op, [size], 1, torch.float32)), axes=[0])
    inside = op.Less(place, _counted(op, end, size))
    if not (isinstance(start, int) and start == 0):
        inside = op.And(inside, op.Not(op.Less(place, _counted(op, start, size))))
    return op.Gather(x, op.Squeeze(op.NonZero(inside), axes=[0]), axis=axis)


def _counted(op: Builder, bound: Any, size: int | Tensor) -> Any:
    """A bound counted from the front of an axis of that size."""
    if isinstance(bound, Tensor):
        return op.Where(op.Less(bound, 0), op.Add(bound, size), bound)
    return bound if bound >= 0 else op.Add(size, bound)


def _slices(node: ir.Node, source: Tensor) -> dict[int, tuple[int, int, int]] | None:
    starts, ends = given_ints(node, 1, "starts"), given_ints(node, 2, "ends")
    axes, steps = given_ints(node, 3, "axes"), given_ints(node, 4, "steps")
    if starts is None or ends is None or axes is None or (steps is None and len(node.inputs) > 4):
        return None
    if min(axes) < 0:
        return None
    return dict(zip(axes, zip(starts, ends, steps or [1] * len(axes), strict=True), strict=True))


# Constants of a shape


def filled(op: Builder, sizes: Any, value: bool | int | float, dtype: torch.dtype) -> Tensor:
    """A tensor full of one number known at export; `sizes` is a list of ints and tensors, or a 1-D tensor."""
    number = torch.tensor([value], dtype=dtype)
    return op.ConstantOfShape(sizes if isinstance(sizes, Tensor) else op.constant(vector(op, sizes), torch.int64), value=number)
