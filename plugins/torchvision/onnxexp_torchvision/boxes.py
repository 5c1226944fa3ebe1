"""Suppress overlapping boxes."""

from __future__ import annotations

import math

import torch

from onnxexp import Builder, SymbolicTable, Tensor

BOXES = SymbolicTable("torchvision")
_ALL = 2**31 - 1
"""The number of boxes to keep: no limit."""


@BOXES("nms", since=10)
def nms(op: Builder, dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor

    NonMaxSuppression keeps the higher scores first and, of equal ones, the first, as torchvision does. Returns int64 [kept].
    """
    if torch.float64 in (dets.dtype, scores.dtype):
        op.decline("NonMaxSuppression takes float32: boxes of float64 may be kept that it suppresses")
    threshold = _float_below(float(op.static(iou_threshold, "iou_threshold")))
    boxes = op.Unsqueeze(op.cast(dets, torch.float32), axes=[0])
    each = op.Unsqueeze(op.cast(scores, torch.float32), axes=[0, 1])
    kept = op.NonMaxSuppression(boxes, each, [_ALL], [threshold])
    return op.Gather(kept, 2, axis=1)


def _float_below(value: float) -> float:
    """Return the largest float32 that is not above a number.

    torchvision compares the float32 overlap with a float64 threshold, ONNX with a float32 one.
    """
    nearest = torch.tensor(value, dtype=torch.float32)
    return float(nearest if float(nearest) <= value else torch.nextafter(nearest, torch.tensor(-math.inf)))
