"""Sizes of tensors: ints where they are static, else computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp import Builder, Tensor, TensorType
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.producers import given_ints, made_by
from onnxexp_aten.support.symbolic_sizes import Dim

__all__ = ["run_time_size", "size_at", "sizes_of", "vector", "with_shape"]


def with_shape(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """`x`, of which these sizes are known: ONNX's own inference loses names of sizes where operands are broadcast."""
    x.stamp(TensorType(None, tuple(sizes)))
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
    if op.opset >= 15:  # Shape cannot slice before, and no dtype of it tells
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
