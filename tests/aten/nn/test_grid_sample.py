"""nn/grid_sample.py: sampling at given positions, and affine grids."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)

IMAGE, VOLUME = torch.randn(2, 3, 8, 7), torch.randn(2, 3, 4, 5, 6)
PLACES, PLACES_3D = torch.rand(2, 5, 6, 2) * 2.6 - 1.3, torch.rand(2, 5, 6, 4, 3) * 2.6 - 1.3


def sampled(mode: str, padding: str, aligned: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def grid_sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, aligned)

    grid_sample.__name__ = f"{mode}-{padding}-{aligned}"
    return grid_sample


WAYS = [
    (mode, padding, aligned)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for aligned in (False, True)
]


def image_case(*way: str | bool) -> Case:
    """Build a case for images, with dynamic axes."""
    axes, options = {0: [0], 1: [0, 1]}, {"opsets": (16, 20), "rtol": 1e-4, "atol": 1e-5, "emits": {"GridSample"}}
    return Case(sampled(*way), IMAGE, PLACES, dynamic=axes, **options)


@cases(
    *(image_case(*way) for way in WAYS if way[2] == (way[1] == "border")),
    *(
        Case(sampled(*way), VOLUME, PLACES_3D, dynamic={0: [0], 1: [0]}, opsets=(20,), rtol=1e-4, atol=1e-5, emits={"GridSample"})
        for way in WAYS
        if way[0] != "bicubic"
    ),
    *(
        Case(sampled(mode, "zeros", False), IMAGE, PLACES, opsets=(11, 13), rtol=1e-4, atol=1e-5)
        for mode in ("bilinear", "nearest")
    ),
)
def test_grid_sample(check):
    check()


@pytest.mark.full
@cases(*(image_case(*way) for way in WAYS if way[2] != (way[1] == "border")))
def test_grid_sample_in_other_ways(check):
    check()


def test_volumes_need_opset_20():
    with pytest.raises(Exception, match="opset_version=20"):
        check_case(Case(sampled("bilinear", "zeros", False), VOLUME, PLACES_3D), 16)


def affine(size: tuple[int, ...], aligned: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    def affine_grid(theta: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, [theta.shape[0], 3, *size], aligned)

    return affine_grid


@cases(
    *(
        Case(affine(size, aligned), torch.randn(2, len(size), len(size) + 1), dynamic={0: [0]}, opsets=(9, 18, 22))
        for size in ((5, 6), (5, 6, 4))
        for aligned in (False, True)
    )
)
def test_affine_grid(check):
    check()


class GridOfImage(torch.nn.Module):
    def __init__(self, aligned: bool) -> None:
        super().__init__()
        self.aligned = aligned

    def forward(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, list(x.shape), self.aligned)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("capture", "opset"), [("trace", 9), ("trace", 20), ("script", 13)])
@pytest.mark.parametrize("extents", [(5, 6), (5, 6, 4)])
def test_affine_grid_of_any_size(extents: tuple[int, ...], capture: str, opset: int, aligned: bool) -> None:
    """An aligned axis of one element is at 0 in torch, at -1 in ONNX's AffineGrid."""
    rank = len(extents)
    theta, model = torch.randn(2, rank, rank + 1), GridOfImage(aligned)
    shapes = {"theta": {}, "x": {axis + 2: f"n{axis}" for axis in range(rank)}}
    options = {"capture": capture, "opset_version": opset, "dynamic_shapes": shapes}
    program = onnxexp.export(model, (theta, torch.zeros(2, 3, *extents)), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for other in (extents, (1, 7, 3)[:rank], (4, 1, 1)[:rank], (1, 1, 1)[:rank]):
        x = torch.zeros(2, 3, *other)
        torch.testing.assert_close(program(theta, x), model(theta, x))
