"""The operators of torchvision, whether or not it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from tests.torchvision.reference_operators import define


@pytest.fixture(autouse=True, scope="module")
def _operators() -> None:
    define()


class Lambda(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def boxes(count: int, extent: float = 20.0) -> Tensor:
    corners = torch.rand(count, 2) * extent
    return torch.cat([corners, corners + torch.rand(count, 2) * extent / 3], 1)


def rois(count: int) -> Tensor:
    """Draw boxes of two images, some of them beyond the edges."""
    return torch.cat([torch.randint(0, 2, (count, 1)).float(), boxes(count) - 3], 1)


def check(function: Callable[..., Any], make: Callable[[int], tuple[Tensor, ...]], axes: Any, capture: str, opset: int) -> None:
    """Export with a dynamic number of boxes, and compare at none, one, and more."""
    torch.manual_seed(0)
    program = onnxexp.export(Lambda(function), make(4), dynamic_shapes=(axes,), capture=capture, opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for count in (4, 0, 1, 9):
        program.verify(make(count), atol=1e-4)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [10, 11, 20])
def test_nms_with_equal_scores(capture: str, opset: int) -> None:
    def make(count: int) -> tuple[Tensor, ...]:
        return boxes(count * 5), torch.randint(0, 4, (count * 5,)).float()

    check(lambda dets, scores: torch.ops.torchvision.nms(dets, scores, 0.3), make, ({0: "n"}, {0: "n"}), capture, opset)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.7])
def test_an_overlap_equal_to_the_threshold_is_kept(threshold: float) -> None:
    dets = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 0.3, 1], [0, 0, 0.7, 1]])
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
    for pair in ([0, 1], [0, 2], [0, 3]):
        model = Lambda(lambda dets, scores: torch.ops.torchvision.nms(dets, scores, threshold))
        onnxexp.export(model, (dets[pair], scores[pair]), capture="trace").verify()


def test_boxes_of_float64_are_refused() -> None:
    with pytest.raises(onnxexp.UnsupportedOperators, match=r"boxes of float64 may be kept that it suppresses"):
        onnxexp.export(Lambda(lambda d, s: torch.ops.torchvision.nms(d, s, 0.5)), (boxes(4).double(), torch.rand(4).double()),
                       capture="trace")  # fmt: skip


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(("aligned", "opset"), [(False, 10), (False, 16), (True, 16), (True, 20)])
@pytest.mark.parametrize("ratio", [-1, 0, 2])
def test_roi_align(capture: str, aligned: bool, opset: int, ratio: int) -> None:
    check(
        lambda x, regions: torch.ops.torchvision.roi_align(x, regions, 0.5, 3, 2, ratio, aligned),
        lambda count: (torch.randn(2, 3, 8, 9), rois(count)), ({}, {0: "n"}), capture, opset,
    )  # fmt: skip


def test_aligned_coordinates_need_opset_16() -> None:
    model = Lambda(lambda x, regions: torch.ops.torchvision.roi_align(x, regions, 0.5, 3, 2, 2, True))
    with pytest.raises(onnxexp.OpsetError, match=r"opset_version=16 can express all of it"):
        onnxexp.export(model, (torch.randn(2, 3, 8, 9), rois(2)), opset_version=15, capture="trace")


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [16, 20])
def test_ps_roi_align(capture: str, opset: int) -> None:
    check(
        lambda x, regions: torch.ops.torchvision.ps_roi_align(x, regions, 0.5, 3, 2, 2)[0],
        lambda count: (torch.randn(2, 12, 8, 9), rois(count)), ({}, {0: "n"}), capture, opset,
    )  # fmt: skip


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [9, 16, 20])
def test_roi_pool(capture: str, opset: int) -> None:
    check(
        lambda x, regions: torch.ops.torchvision.roi_pool(x, regions, 0.5, 3, 2)[0],
        lambda count: (torch.randn(2, 3, 8, 9), rois(count)), ({}, {0: "n"}), capture, opset,
    )  # fmt: skip


def deformable(masked: bool) -> tuple[Callable[..., Tensor], Callable[[int], tuple[Tensor, ...]]]:
    """Build a deformable convolution of 4 channels, and its inputs.

    It has 2 groups of channels and of offsets, with other strides, pads and dilations by axis.
    """
    torch.manual_seed(0)
    weight, bias = torch.randn(6, 2, 3, 2), torch.randn(6)

    def function(x: Tensor, offset: Tensor, mask: Tensor) -> Tensor:
        return torch.ops.torchvision.deform_conv2d(x, weight, offset, mask, bias, 2, 1, 1, 2, 1, 2, 2, 2, masked)

    def make(count: int) -> tuple[Tensor, ...]:
        return torch.randn(count, 4, 6, 5), torch.randn(count, 24, 3, 7) * 2, torch.rand(count, 12, 3, 7)

    return function, make


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("opset", [16, 20])
def test_deform_conv2d(capture: str, masked: bool, opset: int) -> None:
    function, make = deformable(masked)
    axes = ({0: "n"},) * 3
    program = onnxexp.export(Lambda(function), make(2), dynamic_shapes=(axes,), capture=capture, opset_version=opset)
    for count in (2, 1, 3):
        program.verify(make(count), atol=1e-4)


def test_deform_conv2d_for_every_runtime() -> None:
    function, make = deformable(True)
    program = onnxexp.export(Lambda(function), make(2), target="onnx", capture="trace")
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert "DeformConv" in [node.op_type for node in program.model.graph]
    (actual,) = onnx.reference.ReferenceEvaluator(program.model_proto).run(
        None, dict(zip([each.name for each in program.model.graph.inputs], [each.numpy() for each in make(2)], strict=True))
    )
    torch.manual_seed(0)
    assert actual.shape == (2, 6, 3, 7)
