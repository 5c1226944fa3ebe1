"""torchvision's schemas with slow reference kernels, for use without torchvision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from onnxexp._torch_ops.schemas import overload

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor",
)
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def define() -> None:
    """Define the operators once for the process."""
    if overload("torchvision::nms") is not None:
        return
    kernels = {
        "nms": nms,
        "roi_align": roi_align,
        "roi_pool": roi_pool,
        "ps_roi_align": ps_roi_align,
        "deform_conv2d": deform_conv2d,
    }
    for schema in _SCHEMAS:
        _LIBRARY.define(schema)
        name = schema.partition("(")[0]
        _LIBRARY.impl(name, kernels[name], "CPU")


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    kept: list[int] = []
    for index in torch.argsort(scores, descending=True, stable=True).tolist():
        if all(_overlap(dets[index], dets[other]) <= iou_threshold for other in kept):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(one: Tensor, other: Tensor) -> float:
    low, high = torch.maximum(one[:2], other[:2]), torch.minimum(one[2:], other[2:])
    shared = float((high - low).clamp(min=0).prod())
    return shared / (float((one[2:] - one[:2]).prod()) + float((other[2:] - other[:2]).prod()) - shared)


def _value(plane: Tensor, y: float, x: float) -> float:
    """Interpolate one place; 0 beyond one pixel outside."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, over = y - top, x - left
    upper = float(plane[top, left]) * (1 - over) + float(plane[top, right]) * over
    lower = float(plane[bottom, left]) * (1 - over) + float(plane[bottom, right]) * over
    return upper * (1 - down) + lower * down


def _bins(
    roi: Tensor, scale: float, size: tuple[int, int], ratio: int, aligned: bool
) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Return the places that each bin of a region averages."""
    x1, y1, x2, y2 = (float(each) * scale - (0.5 if aligned else 0.0) for each in roi[1:])
    height, width = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
    down, over = height / size[0], width / size[1]
    rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(down), math.ceil(over))
    return {
        (i, j): [
            (y1 + i * down + (row + 0.5) * down / rows, x1 + j * over + (column + 0.5) * over / columns)
            for row in range(rows)
            for column in range(columns)
        ]
        for i in range(size[0])
        for j in range(size[1])
    }


def _mean(plane: Tensor, places: list[tuple[float, float]]) -> float:
    return sum(_value(plane, *place) for place in places) / max(len(places), 1)


def roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Tensor:
    result = x.new_zeros(len(rois), x.shape[1], height, width)
    for index, roi in enumerate(rois):
        for (i, j), places in _bins(roi, scale, (height, width), ratio, aligned).items():
            for channel in range(x.shape[1]):
                result[index, channel, i, j] = _mean(x[int(roi[0]), channel], places)
    return result


def ps_roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int) -> tuple[Tensor, Tensor]:
    channels = x.shape[1] // (height * width)
    result = x.new_zeros(len(rois), channels, height, width)
    for index, roi in enumerate(rois):
        for (i, j), places in _bins(roi, scale, (height, width), ratio, True).items():
            for channel in range(channels):
                result[index, channel, i, j] = _mean(x[int(roi[0]), (channel * height + i) * width + j], places)
    return result, torch.zeros_like(result, dtype=torch.int32)


def roi_pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    result = x.new_zeros(len(rois), x.shape[1], height, width)
    for index, roi in enumerate(rois):
        x1, y1, x2, y2 = (math.floor(float(each) * scale + 0.5) for each in roi[1:])
        down, over = max(y2 - y1 + 1, 1) / height, max(x2 - x1 + 1, 1) / width
        for i in range(height):
            for j in range(width):
                rows = (
                    min(max(math.floor(i * down) + y1, 0), x.shape[2]),
                    min(max(math.ceil((i + 1) * down) + y1, 0), x.shape[2]),
                )
                columns = (
                    min(max(math.floor(j * over) + x1, 0), x.shape[3]),
                    min(max(math.ceil((j + 1) * over) + x1, 0), x.shape[3]),
                )
                part = x[int(roi[0]), :, slice(*rows), slice(*columns)]
                if part.numel():
                    result[index, :, i, j] = part.amax((1, 2))
    return result, torch.zeros_like(result, dtype=torch.int32)


def deform_conv2d(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *numbers: int) -> Tensor:
    stride, pad, dilation, groups, offset_groups, use_mask = numbers[0:2], numbers[2:4], numbers[4:6], *numbers[6:9]
    batch, channels = x.shape[:2]
    kernel, out = weight.shape[2:], offset.shape[2:]
    elements = kernel[0] * kernel[1]
    columns = x.new_zeros(batch, channels, elements, *out)
    for image in range(batch):
        for channel in range(channels):
            group = channel // (channels // offset_groups)
            for element in range(elements):
                row = group * elements + element
                for i in range(out[0]):
                    for j in range(out[1]):
                        y = i * stride[0] - pad[0] + element // kernel[1] * dilation[0] + float(offset[image, 2 * row, i, j])
                        z = j * stride[1] - pad[1] + element % kernel[1] * dilation[1] + float(offset[image, 2 * row + 1, i, j])
                        factor = float(mask[image, row, i, j]) if use_mask else 1.0
                        columns[image, channel, element, i, j] = _padded(x[image, channel], y, z) * factor
    rows = columns.reshape(batch, groups, -1, out[0] * out[1])
    result = weight.reshape(groups, weight.shape[0] // groups, -1) @ rows
    return result.reshape(batch, weight.shape[0], *out) + bias.reshape(-1, 1, 1)


def _padded(plane: Tensor, y: float, x: float) -> float:
    """Interpolate one place of a plane that is 0 outside."""
    top, left = math.floor(y), math.floor(x)
    total = 0.0
    for row, down in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, over in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += float(plane[row, column]) * down * over
    return total
