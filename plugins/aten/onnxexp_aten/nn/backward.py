"""Backward operators in core ATen: convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import SymbolicSize
from onnxexp_aten.indexing.scatter import scatter_elements
from onnxexp_aten.nn.convolution import convolve
from onnxexp_aten.reduction.reductions import reduced
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compute
from onnxexp_aten.support.read_arguments import expand_scalar, rank_of
from onnxexp_aten.support.tensor_sizes import fixed, size_at, with_shape
from onnxexp_aten.support.view_nodes import reshaped, sliced, swapped

table = SymbolicTable("aten")


def _sizes(op: Builder, x: Tensor, dims: int) -> list[int]:
    if x.shape is None or any(isinstance(size, SymbolicSize) for size in x.shape[-dims:]):
        op.decline("the sizes must be known at export")
    return fixed(x.shape[-dims:])


@table("convolution_backward")
def convolution_backward(
    op: Builder,
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride,
    SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask)
    -> (Tensor, Tensor, Tensor)"""
    dims = rank_of(op, weight) - 2
    steps, pads, apart = (expand_scalar(each, dims) for each in (stride, padding, dilation))
    by_input, by_weight, by_bias = output_mask
    results: list[Tensor | None] = [None, None, None]
    if by_input:
        options: dict[str, Any] = {"stride": steps, "dilation": apart, "groups": groups}
        more = None if transposed else _missing(op, grad_output, input, weight, steps, pads, apart)
        results[0] = convolve(op, grad_output, weight, None, **options, pads=pads * 2, output_padding=more)
    if by_weight:
        small, large = (input, grad_output) if transposed else (grad_output, input)
        results[1] = _by_weight(op, large, small, weight, steps, pads, apart, groups)
    if by_bias:
        results[2] = reduced(op, "ReduceSum", grad_output, [0, *range(2, dims + 2)])
    return tuple(results)


def _missing(
    op: Builder, grad: Tensor, x: Tensor, weight: Tensor, steps: list[int], pads: list[int], apart: list[int]
) -> list[int]:
    """Compute the output padding: elements that strides skip at each axis's end."""
    sizes = zip(*(_sizes(op, each, len(steps)) for each in (grad, x, weight)), steps, pads, apart, strict=True)
    return [after - ((before - 1) * step - 2 * pad + far * (width - 1) + 1) for before, after, width, step, pad, far in sizes]


def _by_weight(
    op: Builder, large: Tensor, small: Tensor, weight: Tensor, steps: list[int], pads: list[int], apart: list[int], groups: int
) -> Tensor:
    """Compute the weight's gradient: a convolution of `large` with kernel `small`.

    Batches and channels change places.
    """
    dims = len(steps)
    batch, channels = _sizes(op, large, dims + 2)[:2]
    each = channels // groups
    space = _sizes(op, large, dims)
    sides = op.Reshape(large, [batch, groups, each, *space])
    sides = op.Reshape(op.Transpose(sides, perm=[2, 1, 0, *range(3, dims + 3)]), [each, groups * batch, *space])
    found = convolve(op, sides, swapped(op, small, 0, 1), None, stride=apart, dilation=steps, groups=groups, pads=pads * 2)
    for axis, size in enumerate(_sizes(op, weight, dims), 2):  # skipped elements make the result larger than the kernel
        found = sliced(op, found, axis, 0, size)
    return swapped(op, found, 0, 1)


@table("avg_pool2d_backward")
def avg_pool2d_backward(
    op: Builder,
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode,
    bool count_include_pad, int? divisor_override) -> Tensor"""
    kernel, pads = expand_scalar(kernel_size, 2), expand_scalar(padding, 2)
    steps = expand_scalar(stride, 2) if stride else kernel
    matrices = []
    for size, count, *window in zip(_sizes(op, self, 2), _sizes(op, grad_output, 2), kernel, steps, pads, strict=True):
        matrices.append(_window_shares(size, count, *window, whole=divisor_override is not None, padded=count_include_pad))
    result = _spread_out(op, grad_output, matrices)
    return result if divisor_override is None else compute(op, "Div", result, divisor_override)


def _window_shares(size: int, count: int, width: int, step: int, pad: int, *, whole: bool, padded: bool) -> torch.Tensor:
    """Compute each element's weight in each window's average, [windows, elements].

    With `whole` the weights are 1.
    """
    shares = torch.zeros(count, size, dtype=torch.float64)
    for number in range(count):
        start = number * step - pad
        end = min(start + width, size + pad)
        counted = end - start if padded else min(end, size) - max(start, 0)
        shares[number, max(start, 0) : min(end, size)] = 1.0 if whole else 1.0 / counted
    return shares


@table("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(op: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    matrices = []
    for size, count in zip(_sizes(op, self, 2), _sizes(op, grad_output, 2), strict=True):
        shares = torch.zeros(count, size, dtype=torch.float64)
        for number in range(count):
            start, end = number * size // count, -(-(number + 1) * size // count)
            shares[number, start:end] = 1.0 / (end - start)
        matrices.append(shares)
    return _spread_out(op, grad_output, matrices)


def _spread_out(op: Builder, grad: Tensor, shares: Sequence[torch.Tensor]) -> Tensor:
    """Distribute [..., windows, windows] to [..., elements, elements]."""
    rows, columns = (op.constant(each.to(grad.dtype)) for each in shares)
    return op.MatMul(op.MatMul(swapped(op, rows, 0, 1), grad), columns)


@table("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    op: Builder,
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding,
    int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"""
    dims = len(kernel_size)
    plane, windows = (math.prod(_sizes(op, each, dims)) for each in (self, grad_output))
    shape = self.shape or ()
    lead = shape[:-dims]
    zeros = filled(op, [*(size_at(op, self, axis) for axis in range(len(lead))), plane], 0, self.dtype)
    places, added = (reshaped(op, each, [*lead, windows]) for each in (indices, grad_output))
    return reshaped(op, scatter_elements(op, with_shape(zeros, [*lead, plane]), len(lead), places, added, "add"), shape)
