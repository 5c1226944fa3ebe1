"""Sizes of tensors: ints where static, else computed at run time.

A dynamic size comes from an argument of the call that is this size, else from the shape of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnxexp import Builder, ComplexTensor, Producer, Tensor
from onnxexp.graph import Dim, TensorType
from onnxexp_aten.support.read_arguments import rank_of


def with_shape(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Stamp known sizes on `x`.

    ONNX's shape inference loses symbols where operands broadcast.
    """
    x.stamp(TensorType(None, tuple(sizes)))
    return x


def output_type(op: Builder, index: int = 0) -> TensorType:
    """Return the type of a tensor output of the node in the captured program."""
    type_ = op.node.outputs[index].type
    assert isinstance(type_, TensorType)
    return type_


def sizes_of(op: Builder, index: int = 0) -> tuple[Dim, ...] | None:
    """Return the sizes of the node's output in the captured program."""
    sizes = output_type(op, index).sizes
    return None if sizes is None else tuple(sizes)


def known_size(x: Tensor, axis: int) -> int:
    """Return a size that the operator's schema or the caller's checks make static."""
    assert x.shape is not None
    (size,) = fixed([x.shape[axis]])
    return size


def fixed(sizes: Iterable[Dim]) -> list[int]:
    """Return sizes that are all numbers."""
    found = [size for size in sizes if isinstance(size, int)]
    assert len(found) == len([*sizes])
    return found


def size_at(op: Builder, x: Tensor, axis: int) -> int | Tensor:
    """Return one size: an int where static, else a 0-d int64 tensor."""
    axis = axis + rank_of(op, x) if axis < 0 else axis
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(size, int):
        return size
    for tensor in _inputs(op):  # one source per symbol, so that equal nodes are shared
        if tensor.known_shape is not None and size in tensor.known_shape:
            x, axis = tensor, tensor.known_shape.index(size)
            break
    return op.Gather(op.Shape(x.real if isinstance(x, ComplexTensor) else x), axis, axis=0)


def _inputs(op: Builder) -> list[Tensor]:
    return op.graph_inputs


def vector(op: Builder, sizes: Sequence[Any]) -> Any:
    """Convert sizes to a list for a 1-D tensor.

    A size that a Gather reads from a shape is read as a vector instead.
    """
    return [_as_vector(op, size) if isinstance(size, Tensor) and size.rank == 0 else size for size in sizes]


def _as_vector(op: Builder, size: Tensor) -> Tensor:
    """Read a size as a vector, since a scalar in a list would become an Unsqueeze."""
    found = made_by(op, size, "Gather")
    index = None if found is None else given_ints(found[0], 1, "")
    shape = None if found is None else made_by(op, found[1], "Shape")
    if found is None or shape is None or index is None or shape[0].attributes:
        return size
    if op.opset >= 15:  # Shape has `start` and `end` from opset 15 on
        return op.Shape(shape[1], start=index[0], end=index[0] + 1)
    return op.Gather(found[1], index, axis=0)


def run_time_size(op: Builder, dim: Dim, candidates: Sequence[Any], given: Any = None) -> int | Tensor:
    """Resolve a symbolic size from the call's argument or from a tensor."""
    if isinstance(dim, int):
        return dim
    if isinstance(given, Tensor):
        return given
    for tensor in candidates:
        if isinstance(tensor, Tensor) and tensor.shape is not None and dim in tensor.shape:
            return size_at(op, tensor, tensor.shape.index(dim))
    size = op.size_of(dim)
    if size is not None:
        return size
    raise op.error(f"no argument of the call has the size {dim}")


def made_by(op: Builder, x: Tensor, *kinds: str) -> tuple[Producer, Tensor] | None:
    """Return the producer of `x`, one of these operators, and its first input.

    Returns None where the first input is constant, or the producer is another operator.
    """
    node = op.producer(x)
    source = node.inputs[0] if node is not None and node.operator in kinds else None
    return None if node is None or source is None or source.const is not None else (node, source)


def given_ints(node: Producer, index: int, name: str) -> list[int] | None:
    """Return constant integers of an input or attribute of a node, else None."""
    if name in node.attributes:
        return list(node.attributes[name])
    given = node.inputs[index] if index < len(node.inputs) else None
    return None if given is None or given.const is None else [int(element) for element in given.const.reshape(-1).tolist()]
