"""Fractional max pooling: windows at random positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.support.arguments import expand_scalar, rank_of
from onnxexp_aten.support.axis_products import batched
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.tensor_sizes import size_at
from onnxexp_aten.support.view_nodes import unsqueezed

table = SymbolicTable("aten")


def _starts(op: Builder, samples: Tensor, sizes: Sequence[int], kernel: Sequence[int], output: Sequence[int]) -> Tensor:
    """Compute the begins of the windows, int64[batch, channels, sum(output)].

    The begins count elements of the plane, one axis after the other. `samples` has one number per channel and axis; in two
    dimensions torch takes them from the last axis on.
    """
    dims, dtype = len(sizes), samples.dtype
    axis = torch.repeat_interleave(torch.arange(dims), torch.tensor(output))
    number = torch.cat([torch.arange(count) for count in output])
    last, after = ((torch.tensor(each)[axis]) for each in ([n - k for n, k in zip(sizes, kernel, strict=True)], output))
    alpha = op.constant(last.to(dtype) / (after - 1).clamp(min=1).to(dtype))
    sample = op.Gather(samples, op.constant(axis if dims == 3 else 1 - axis), axis=2)
    ends = op.cast(compute(op, "Mul", op.Add(sample, op.constant(number.to(dtype))), alpha), torch.int64)
    begins = op.cast(compute(op, "Mul", sample, alpha), torch.int64)
    places = op.Where(op.constant(number == after - 1), op.constant(last), op.Sub(ends, begins))
    strides = torch.tensor([math.prod(sizes[place + 1 :]) for place in range(dims)])
    return op.Mul(places, op.constant(strides[axis]))


def _pooled(op: Builder, x: Tensor, kernel: Sequence[int], output: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window of ``[N, C, *spatial]``, and its position."""
    shape = [size for size in (size_at(op, x, axis) for axis in range(rank_of(op, x))) if isinstance(size, int)]
    if len(shape) < rank_of(op, x):
        raise op.error("the sizes must be known at export; to fix this, use no dynamic axis there")
    lead, sizes = shape[:2], shape[2:]
    starts = _starts(op, samples, sizes, kernel, output)
    windows = torch.cartesian_prod(*(torch.arange(count) + sum(output[:axis]) for axis, count in enumerate(output)))
    first, *others = (op.Gather(starts, op.constant(column[:, None]), axis=2) for column in windows.unbind(1))
    for other in others:
        first = op.Add(first, other)  # [N, C, windows, 1]
    inside = torch.arange(math.prod(sizes)).reshape(sizes)[tuple(slice(size) for size in kernel)].reshape(-1)
    flat = op.Reshape(x, [*lead, math.prod(sizes)])
    places = op.Reshape(op.Add(first, op.constant(inside)), [*lead, len(windows) * len(inside)])
    values = op.Reshape(op.GatherElements(flat, places, axis=2), [*lead, len(windows), len(inside)])
    best = op.ArgMax(values, axis=3, keepdims=1)
    found = op.Add(first, op.Gather(op.constant(inside), best, axis=0))
    largest = op.GatherElements(values, best, axis=3)
    return op.Reshape(largest, [*lead, *output]), op.Reshape(found, [*lead, *output])


@table("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(
    op: Builder, self: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)"""
    dims = 3 if "3d" in op.node.op else 2
    samples = random_samples if rank_of(op, random_samples) == 3 else unsqueezed(op, random_samples, [0])
    kernel, output = expand_scalar(kernel_size, dims), expand_scalar(output_size, dims)
    return batched(op, self, dims, lambda x: _pooled(op, x, kernel, output, samples))
