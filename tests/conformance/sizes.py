"""Other sizes of a sample's tensors, and the declared sizes of outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
import torch

from onnxexp.testing._other_sizes import Sizes, declared_shape, larger_sizes, resized

Resize = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]

_OF_MATRICES = (
    *("linalg.", "cholesky", "det", "geqrf", "inverse", "logdet", "lu", "matrix_exp", "ormqr", "pca_lowrank", "pinverse", "qr"),
    *("slogdet", "svd", "triangular_solve"),
)


def resize_for(op: str) -> Resize:
    """Return how an operator's tensors are resized."""
    return bordered if op.startswith(_OF_MATRICES) else resized


def bordered(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Resize matrices with the border of an identity matrix.

    Repeated rows would make them singular. Symmetric, positive definite, triangular and orthogonal matrices stay so, and pivots
    stay within the matrix.
    """
    if tensor.dim() < 2 or not (tensor.is_floating_point() or tensor.is_complex()):
        found = resized(tensor, shape)
        return found.clamp(max=max(1, shape[-1])) if tensor.dtype == torch.int32 and tensor.dim() else found
    corner = tensor[..., : shape[-2], : shape[-1]]
    found = torch.eye(*shape[-2:], dtype=tensor.dtype).expand(*tensor.shape[:-2], -1, -1).clone()
    found[..., : corner.shape[-2], : corner.shape[-1]] = corner
    return resized(found, shape)


def free_axes(
    tensors: Sequence[torch.Tensor], accepts: Callable[[list[torch.Tensor]], bool], resize: Resize = resized
) -> list[list[int]]:
    """Return the axes of each tensor that eager accepts at another size.

    Axes of size 1 are left out, since 1 means broadcasting, and empty ones. Other axes may have to change too.
    """
    places = {
        f"{index} {axis}": (index, axis) for index, x in enumerate(tensors) for axis, size in enumerate(x.shape) if size > 1
    }
    example = {name: tensors[index].shape[axis] for name, (index, axis) in places.items()}
    free: set[str] = set()

    def works(sizes: Sizes) -> bool:
        shapes = [[sizes.get(f"{index} {axis}", size) for axis, size in enumerate(x.shape)] for index, x in enumerate(tensors)]
        return accepts([resize(x, shape) for x, shape in zip(tensors, shapes, strict=True)])

    for sizes in larger_sizes(example):
        changed = {name for name, size in sizes.items() if size != example[name]}
        if not changed <= free and works(sizes):
            free |= changed
    return [[axis for axis in range(x.dim()) if f"{index} {axis}" in free] for index, x in enumerate(tensors)]


def misdeclared(model: onnx.ModelProto, sizes: Mapping[str, int], results: Sequence[torch.Tensor]) -> str:
    """Return the first output whose shape is not the declared one, else ""."""
    if len(results) != len(model.graph.output):
        return ""  # one output is a sequence
    for slot, result in zip(model.graph.output, results, strict=True):
        if not slot.type.tensor_type.HasField("shape"):
            continue
        rank = len(slot.type.tensor_type.shape.dim)
        shape = result.shape if rank == result.dim() else [1] * rank
        declared = [max(0, size) for size in declared_shape(slot, shape, sizes)]  # n - 3 means that nothing is left
        squeezed = rank > result.dim() and _without_ones(declared) == _without_ones(result.shape)  # declared at other sizes
        if declared != list(result.shape) and not squeezed:
            return f"{slot.name} is declared {declared} and has {list(result.shape)}"
    return ""


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]
