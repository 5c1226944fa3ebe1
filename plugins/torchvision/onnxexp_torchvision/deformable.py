"""Deformable convolution."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor

DEFORMABLE = SymbolicTable("torchvision")


@DEFORMABLE("deform_conv2d", since=16)
def deform_conv2d(
    op: Builder, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w,
    SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,
    bool use_mask) -> Tensor

    Emits DeformConv where the target has it, else GridSample at the places of the kernel's elements, and a product with the
    kernel. `input` is [batch, channels, height, width], `offset` [batch, 2 * offset_groups * kernel, out height, out width] with
    y before x, `mask` [batch, offset_groups * kernel, out height, out width].
    """
    kernel = [] if weight.shape is None else [size for size in weight.shape[2:] if isinstance(size, int)]
    numbers = op.static(
        [stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups], "a number of deform_conv2d"
    )
    if len(kernel) != 2:
        raise op.error(f"the size of the kernel must be known at export: {weight!r}")
    if op.opset >= 19 and op.target == "onnx":
        stride, pad, dilation = numbers[0:2], numbers[2:4], numbers[4:6]
        return op.DeformConv(
            input, weight, offset, bias, mask if use_mask else None, kernel_shape=kernel, strides=stride, pads=[*pad, *pad],
            dilations=dilation, group=numbers[6], offset_group=numbers[7],
        )  # fmt: skip
    return _sampled(op, input, weight, offset, mask if use_mask else None, bias, kernel, numbers)


def _sampled(
    op: Builder, x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, bias: Tensor, kernel: list[int],
    numbers: list[int],
) -> Tensor:  # fmt: skip
    groups, offset_groups = numbers[6:8]
    elements = kernel[0] * kernel[1]
    batch, channels, height, width = (_size(op, x, axis) for axis in range(4))
    out_h, out_w = _size(op, offset, 2), _size(op, offset, 3)
    if not isinstance(channels, int):
        raise op.error(f"the number of channels must be known at export: {x!r}")
    per_group = channels // offset_groups
    moved = op.Reshape(offset, [-1, elements, 2, out_h, out_w])
    grid = _grid(op, moved, kernel, numbers, (out_h, out_w), (height, width))
    images = op.Reshape(x, [-1, per_group, height, width])
    values = op.GridSample(images, op.Reshape(grid, [-1, _product(op, elements, out_h), out_w, 2]), align_corners=0)
    values = op.Reshape(values, [-1, per_group, elements, out_h, out_w])
    if mask is not None:
        values = op.Mul(values, op.Reshape(mask, [-1, 1, elements, out_h, out_w]))
    rows = op.Reshape(values, [batch, groups, channels // groups * elements, _product(op, out_h, out_w)])
    out_channels = _size(op, weight, 0)
    assert isinstance(out_channels, int)
    matrix = op.Reshape(weight, [groups, out_channels // groups, channels // groups * elements])
    result = op.Reshape(op.MatMul(matrix, rows), [batch, out_channels, out_h, out_w])
    return op.Add(result, op.Reshape(bias, [1, -1, 1, 1]))


def _grid(op: Builder, moved: Tensor, kernel: list[int], numbers: list[int], out: Any, size: Any) -> Tensor:
    """Compute GridSample's places, x before y, where the image spans -1 to 1.

    The shape is [batch * offset groups, elements, out height, out width, 2].
    """
    places = []
    for axis in (1, 0):
        stride, pad, dilation = numbers[axis], numbers[2 + axis], numbers[4 + axis]
        element = torch.arange(kernel[0] * kernel[1])
        steps = (element // kernel[1] if axis == 0 else element % kernel[1]) * dilation - pad
        base = op.constant(steps.to(moved.dtype).reshape(-1, 1, 1))
        start = op.Mul(op.cast(op.Range(0, op.cast(out[axis], torch.int64), 1), moved.dtype), stride)
        start = op.Reshape(start, [-1, 1] if axis == 0 else [1, -1])
        place = op.Add(op.Add(op.Gather(moved, axis, axis=2), base), start)
        extent = op.cast(size[axis], moved.dtype)
        places.append(op.Sub(op.Div(op.Add(op.Mul(place, 2), 1), extent), 1))
    return op.Concat(*(op.Unsqueeze(place, axes=[4]) for place in places), axis=4)


def _size(op: Builder, x: Tensor, axis: int) -> Any:
    """Return a size as a number, or as a 0-d int64 tensor."""
    known = None if x.shape is None else x.shape[axis]
    return known if isinstance(known, int) else op.Gather(op.Shape(x), axis)


def _product(op: Builder, one: Any, other: Any) -> Any:
    return one * other if isinstance(one, int) and isinstance(other, int) else op.Mul(one, other)
