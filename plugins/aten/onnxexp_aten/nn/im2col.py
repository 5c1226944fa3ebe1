"""Sliding windows as columns (unfold) and their sum back into an image (fold)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.ranges import arange_of
from onnxexp_aten.shape.padding import padded
from onnxexp_aten.support.axis_products import batched
from onnxexp_aten.support.kernel_dtypes import has_operator, running_dtype
from onnxexp_aten.support.read_arguments import expand_scalar, rank_of
from onnxexp_aten.support.tensor_sizes import fixed, size_at
from onnxexp_aten.support.view_nodes import permuted, squeezed, unsqueezed

table = SymbolicTable("aten")


@table("im2col")
def im2col(op: Builder, self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    kernel, steps, strides = (expand_scalar(value, 2) for value in (kernel_size, dilation, stride))
    rows, columns = expand_scalar(padding, 2)

    def unfolded(x: Tensor) -> Tensor:
        x = padded(op, x, [columns, columns, rows, rows])
        channels = size_at(op, x, 1)
        if _tiles(op, x, kernel, steps, strides):
            assert x.shape is not None
            counts = [size // width for size, width in zip(fixed(x.shape[2:]), kernel, strict=True)]
            windows = op.Reshape(x, [0, channels, counts[0], kernel[0], counts[1], kernel[1]])
            windows = permuted(op, windows, [0, 1, 3, 5, 2, 4])
        else:
            windows = op.Gather(x, _places(op, x, 2, kernel[0], steps[0], strides[0]), axis=2)
            windows = op.Gather(windows, _places(op, windows, 4, kernel[1], steps[1], strides[1]), axis=4)
            windows = permuted(op, windows, [0, 1, 2, 4, 3, 5])
        width = channels * math.prod(kernel) if isinstance(channels, int) else op.Mul(channels, math.prod(kernel))
        down, across = size_at(op, windows, 4), size_at(op, windows, 5)
        count = down * across if isinstance(down, int) and isinstance(across, int) else op.Mul(down, across)
        if x.shape is not None and x.shape[0] == 0:
            return op.Expand(op.constant(torch.zeros((), dtype=x.dtype)), [0, width, count])
        return op.Reshape(windows, [0, width, count])  # not -1, which cannot be inferred for an empty tensor

    return batched(op, self, 2, unfolded)


def _tiles(op: Builder, x: Tensor, kernel: Sequence[int], steps: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the windows tile the image, so that a Reshape finds them."""
    assert x.shape is not None
    whole = all(isinstance(size, int) and size % width == 0 for size, width in zip(x.shape[2:], kernel, strict=True))
    return whole and list(strides) == list(kernel) and set(steps) == {1}


def _places(op: Builder, x: Tensor, axis: int, width: int, step: int, stride: int) -> Tensor:
    """Return the positions of windows' elements on an axis, int64[width, windows]."""
    size, reach = size_at(op, x, axis), step * (width - 1)
    end = size - reach if isinstance(size, int) else op.Sub(size, reach)
    starts = arange_of(op, 0, end, stride, torch.int64)
    return op.Add(unsqueezed(op, starts, [0]), op.constant(torch.arange(width)[:, None] * step))


@table("col2im")
def col2im(op: Builder, self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    if not has_operator(op, "Col2Im"):
        op.decline("ONNX has Col2Im from opset 18 on")
    alone = rank_of(op, self) == 2
    columns = op.cast(unsqueezed(op, self, [0]) if alone else self, running_dtype(op, "Col2Im", self.dtype))
    sizes = op.constant(list(output_size), torch.int64)
    pads = expand_scalar(padding, 2) * 2
    result = op.Col2Im(
        columns,
        sizes,
        expand_scalar(kernel_size, 2),
        dilations=expand_scalar(dilation, 2),
        pads=pads,
        strides=expand_scalar(stride, 2),
    )
    return op.cast(squeezed(op, result, [0]) if alone else result, self.dtype)
