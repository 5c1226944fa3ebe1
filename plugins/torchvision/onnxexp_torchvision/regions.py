"""Pool regions of interest.

`rois` are [regions, 5] in every operator: the image's index in the batch, then x1, y1, x2, y2.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor

REGIONS = SymbolicTable("torchvision")
_HALF_PIXEL = 16
"""The first opset whose RoiAlign has the aligned coordinates."""


@REGIONS("roi_align", since=10)
def roi_align(
    op: Builder,
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio,
    bool aligned) -> Tensor

    Emits RoiAlign. Returns [regions, channels, pooled_height, pooled_width] in the dtype of `input`.
    """
    size = op.static([pooled_height, pooled_width], "the pooled size")
    return _aligned(op, input, rois, spatial_scale, size, sampling_ratio, aligned)


@REGIONS("ps_roi_align", since=10)
def ps_roi_align(
    op: Builder,
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> list[Tensor | None]:
    """ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,
    int sampling_ratio) -> (Tensor, Tensor)

    Bin (i, j) of output channel c is RoiAlign's bin of input channel (c * pooled_height + i) * pooled_width + j. The second
    result, the mapping of channels, is for training only.
    """
    height, width = op.static([pooled_height, pooled_width], "the pooled size")
    bins = height * width
    pooled = _aligned(op, input, rois, spatial_scale, [height, width], sampling_ratio, True)
    channels = None if input.shape is None else input.shape[1]
    if not isinstance(channels, int) or channels % bins:
        raise op.error(f"the channels must be known and divisible by {bins}: {input!r}")
    every = op.Reshape(pooled, [-1, channels // bins, bins * bins])
    own = op.Gather(every, op.constant([index * (bins + 1) for index in range(bins)]), axis=2)
    return [op.Reshape(own, [-1, channels // bins, height, width]), None]


@REGIONS("roi_pool", since=9)
def roi_pool(
    op: Builder, input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> list[Tensor | None]:
    """roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)

    Emits MaxRoiPool. The second result, the places of the maxima, is for training only.
    """
    size = op.static([pooled_height, pooled_width], "the pooled size")
    x, regions = (op.cast(each, torch.float32) for each in (input, rois))
    if torch.float64 in (input.dtype, rois.dtype):
        op.decline("ONNX Runtime's MaxRoiPool takes float32")
    pooled = op.MaxRoiPool(x, regions, pooled_shape=size, spatial_scale=float(spatial_scale))
    return [op.cast(pooled, input.dtype), None]


def _aligned(
    op: Builder, x: Tensor, rois: Tensor, spatial_scale: float, size: list[int], sampling_ratio: int, aligned: bool
) -> Tensor:
    if aligned and op.opset < _HALF_PIXEL:
        op.opset_error("RoiAlign has no aligned coordinates at this opset", _HALF_PIXEL)
    mode: dict[str, Any] = {}
    if op.opset >= _HALF_PIXEL:
        mode["coordinate_transformation_mode"] = "half_pixel" if aligned else "output_half_pixel"
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    regions = op.cast(rois, dtype)
    result = op.RoiAlign(
        op.cast(x, dtype),
        op.Slice(regions, starts=[1], ends=[5], axes=[1]),
        op.cast(op.Gather(regions, 0, axis=1), torch.int64),
        output_height=size[0],
        output_width=size[1],
        sampling_ratio=max(int(sampling_ratio), 0),
        spatial_scale=float(spatial_scale),
        **mode,
    )
    return op.cast(result, x.dtype)
