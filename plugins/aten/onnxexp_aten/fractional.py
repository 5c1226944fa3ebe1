"""Fractional max pooling: windows at places that random numbers choose."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxexp import Builder, Tensor
from onnxexp_aten.axiswise import batched
from onnxexp_aten.common import aten, rank_of
from onnxexp_aten.elementwise import truncated
from onnxexp_aten.kernels import compute
from onnxexp_aten.layout import size_at, unsqueezed

__all__: list[str] = []


def _starts(op: Builder, sample: Tensor, size: int, window: int, count: int) -> Tensor:
    """int64[batch, channels, count]: where the windows of an axis begin; `sample` has one number for each channel."""
    last = size - window
    if count == 1:
        return op.cast(op.Add(op.Mul(sample, 0.0), float(last)), torch.int64)
    alpha = last / (count - 1)
    numbers = op.constant(torch.arange(count).to(sample.dtype))
    places = truncated(op, compute(op, "Mul", op.Add(numbers, sample), alpha))
    places = op.Sub(places, truncated(op, compute(op, "Mul", sample, alpha)))
    ends = op.constant(torch.arange(count) == count - 1)
    return op.Where(ends, op.constant(last), op.cast(places, torch.int64))  # type: ignore[no-any-return]


def _pooled(op: Builder, x: Tensor, kernel: Sequence[int], output: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
    """Of ``[N, C, *spatial]``: all windows' places in their planes, gathered, and the largest of each."""
    dims, shape = len(kernel), x.shape or ()
    sizes = [size_at(op, x, axis) for axis in range(2, 2 + dims)]
    if not all(isinstance(size, int) for size in (*shape, *sizes)):
        raise op.error("fractional pooling needs sizes that are known at export")
    places: Tensor | None = None
    for axis in range(dims):
        number = axis if dims == 3 else 1 - axis  # of planes torch takes the numbers from the last axis on
        sample = op.Gather(samples, op.constant([number]), axis=2)
        start = _starts(op, sample, int(sizes[axis]), kernel[axis], output[axis])  # type: ignore[arg-type]
        offsets = op.constant(torch.arange(kernel[axis]).reshape(1, 1, 1, -1))
        along = op.Add(op.Unsqueeze(start, axes=[3]), offsets)  # [N, C, output, kernel]
        own = {2 + axis, 2 + dims + axis}
        along = unsqueezed(op, along, [place for place in range(2, 2 + 2 * dims) if place not in own])
        places = along if places is None else op.Add(op.Mul(places, sizes[axis]), along)
    assert places is not None
    batch, channels, plane = int(shape[0]), int(shape[1]), 1
    for size in sizes:
        plane *= int(size)  # type: ignore[arg-type]
    count, width = int(torch.tensor(output).prod()), int(torch.tensor(kernel).prod())
    flat = op.Reshape(places, [batch, channels, count * width])
    values = op.GatherElements(op.Reshape(x, [batch, channels, plane]), flat, axis=2)
    values, flat = (op.Reshape(part, [batch, channels, count, width]) for part in (values, flat))
    best = op.ArgMax(values, axis=3, keepdims=1)
    return tuple(op.Reshape(op.GatherElements(part, best, axis=3), [batch, channels, *output]) for part in (values, flat))  # type: ignore[return-value]


@aten("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(
    op: Builder, self: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)"""
    dims = 3 if "3d" in op.node.op else 2
    samples = random_samples if rank_of(op, random_samples) == 3 else unsqueezed(op, random_samples, [0])
    kernel, output = (list(given) * dims if len(given) == 1 else list(given) for given in (kernel_size, output_size))
    return batched(op, self, dims, lambda x: _pooled(op, x, kernel, output, samples))  # type: ignore[no-any-return]
