"""Products and lookups along single axes, and axes whose product is another axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import Builder, Tensor
from onnxexp.graph import Dim
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.view_nodes import squeezed, swapped, unsqueezed


def multiply_axis(op: Builder, x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """Multiply an axis of size n by ``matrix[n, m]``, which makes its size m."""
    last = rank_of(op, x) - 1
    if axis == last - 1 and last >= 1:
        return op.MatMul(swapped(op, matrix, 0, 1), x)
    if axis == last:
        return op.MatMul(x, matrix)
    return swapped(op, op.MatMul(swapped(op, x, axis, last), matrix), axis, last)


def linear_map_matrix(op: Builder, rows: int, function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> Tensor:
    """Return the matrix of a linear function of the last axis.

    The function is applied to the unit vectors, ``float64[1, rows, rows]``.
    """
    with torch.no_grad():
        return op.constant(function(torch.eye(rows, dtype=torch.float64)[None])[0].to(dtype))


def axis_sizes(op: Builder, x: Tensor, dims: int) -> list[Dim]:
    """Return the sizes of the last `dims` axes."""
    rank_of(op, x)
    assert x.shape is not None
    return list(x.shape[len(x.shape) - dims :])


def batched(op: Builder, x: Tensor, dims: int, compute: Callable[[Tensor], Any]) -> Any:
    """Apply `compute` to ``[N, C, *spatial]``, adding a missing batch axis.

    `compute` returns one result or a tuple.
    """
    if rank_of(op, x) != dims + 1:
        return compute(x)
    results = compute(unsqueezed(op, x, [0]))
    if isinstance(results, tuple):
        return tuple(squeezed(op, result, [0]) for result in results)
    return squeezed(op, results, [0])


def spatial_dims(op: Builder) -> int:
    """Read the number of spatial axes in an operator's name, as in ``max_pool2d``."""
    return next(int(letter) for letter in op.node.op.partition(".")[0] if letter.isdigit())


def partition(fine: Sequence[Dim], coarse: Sequence[Dim]) -> list[list[int]] | None:
    """Find consecutive fine axes whose product is each coarse axis, else return None."""
    groups: list[list[int]] = []
    place = 0
    for size in coarse:
        group: list[int] = []
        while place < len(fine) and (not group or math.prod(fine[axis] for axis in group) != size):
            group.append(place)
            place += 1
        if not group or math.prod(fine[axis] for axis in group) != size:
            return None
        groups.append(group)
    if any(fine[axis] != 1 for axis in range(place, len(fine))) or not groups:
        return None
    groups[-1].extend(range(place, len(fine)))
    return groups
