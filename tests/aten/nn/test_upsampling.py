"""nn/upsampling.py: every mode, scales and sizes, static and dynamic, up and down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases, check_case
from onnxexp_aten.nn.upsampling import Axis, _divides, _same_neighbours

torch.manual_seed(0)

OPSETS = (9, 11, 18)
X = {1: torch.randn(2, 3, 11), 2: torch.randn(2, 3, 12, 10), 3: torch.randn(2, 2, 6, 7, 8)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
UP, DOWN = (23, 17, 19), (1, 3, 5)


def to(**options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def interpolate(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **options)

    interpolate.__name__ = "-".join(f"{value}" for value in options.values())
    return interpolate


def dynamic(dims: int) -> dict[int, list[int]]:
    return {0: [0, *range(2, dims + 2)]}


@cases(
    Case(to(scale_factor=2), X[2], dynamic=dynamic(2), opsets=(*OPSETS, 26), emits={"Resize"}),
    *(
        Case(to(**how, mode=mode), X[dims], dynamic={0: [0]}, opsets=OPSETS if dims == 2 else (9, 18))
        for dims in (1, 2, 3)
        for mode in ("nearest", "nearest-exact")
        for how in ({"scale_factor": 0.7}, {"size": UP[:dims]}, {"size": DOWN[:dims]})
    ),
    *(
        Case(to(**how, mode=mode), torch.randn(1, 1, 36, 42), dynamic={0: [2, 3]}, opsets=(9, 11, 18))
        for mode in ("nearest", "nearest-exact")
        for how in ({"scale_factor": 3}, {"scale_factor": 1 / 3}, {"scale_factor": 1.9}, {"size": (195, 111)}, {"size": (88, 5)})
    ),
    Case(to(scale_factor=1.7, recompute_scale_factor=True), X[2], dynamic=dynamic(2), opsets=OPSETS),
    Case(to(size=(195, 111)), torch.randn(2, 1, 36, 42), dynamic={0: [0]}, emits={"Gather"}),
    *(
        Case(to(size=(7, 13)), (X[2] * 40).to(dtype), dynamic={0: [2]}, opsets=(9, 11, 18))
        for dtype in (torch.float64, torch.uint8)
    ),
    Case(to(size=(7, 13)), X[2].half(), opsets=(9, 11, 18)),
)
def test_nearest(check):
    check()


def doubled(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(2 * x.shape[2], x.shape[3]))


def test_multiples_of_a_dynamic_size_are_left_to_resize():
    program = check_case(Case(doubled, X[2], dynamic={0: [2, 3]}), 18, dynamic=True)
    assert "Range" not in {node.op_type for node in program.model.graph}


@pytest.mark.parametrize(
    ("before", "after", "same"), [(116, 176, False), (36, 72, True), (7, 21, True), (30, 10, True), (72, 136, False)]
)
def test_neighbours_that_resize_would_get_wrong(before, after, same):
    assert _same_neighbours(Axis(2, before, after, after, None), exact=False) is same


@pytest.mark.parametrize(
    ("before", "after", "scale", "divides"),
    [
        ("h", "2*h", None, True),
        ("h", "h", None, True),
        ("h", "h//2", None, False),
        ("h", "2*w", None, False),
        ("h", 8, None, False),
        ("h", "h2", 4.0, True),
        ("h", "h2", 0.25, True),
        ("h", "h2", 1.5, False),
    ],
)
def test_multiples(before, after, scale, divides):
    assert _divides(Axis(2, before, after, None, scale)) is divides


@cases(
    Case(to(scale_factor=2, mode="bilinear"), X[2], dynamic=dynamic(2), opsets=(*OPSETS, 26), emits={"Resize"}),
    *(
        Case(
            to(**how, mode=LINEAR[dims], align_corners=aligned),
            X[dims],
            dynamic=dynamic(dims),
            opsets=(9, 11, 18) if dims == 2 else (9, 18),
        )
        for dims in (1, 2, 3)
        for aligned in (False, True)
        for how in ({"scale_factor": 1.7}, {"size": UP[:dims]}, {"size": DOWN[:dims]})
    ),
    *(
        Case(to(size=size, mode="bilinear", align_corners=aligned), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"Resize"})
        for aligned in (False, True)
        for size in ((23, 17), (5, 1))
    ),
    Case(to(size=(7, 13), mode="bilinear"), X[2].double(), dynamic={0: [0]}, opsets=OPSETS, emits={"MatMul"}),
    Case(to(size=(7, 13), mode="bilinear"), (X[2] * 9).half(), opsets=(9, 11, 18), rtol=4e-3, atol=1e-2),
)
def test_linear(check):
    check()


@cases(
    *(
        Case(to(**how, mode="bicubic", align_corners=aligned), X[2], dynamic={0: [0]}, opsets=OPSETS, rtol=1e-4, atol=1e-5)
        for aligned in (False, True)
        for how in ({"scale_factor": 1.7}, {"size": (23, 17)}, {"size": (5, 3)})
    ),
    Case(to(size=(23, 5), mode="bicubic"), X[2], dynamic=dynamic(2), opsets=(11, 18, 22), rtol=1e-4, atol=1e-5),
)
def test_cubic(check):
    check()


@cases(
    *(
        Case(to(size=size, mode=mode, align_corners=aligned, antialias=True), X[2], dynamic={0: [0]}, opsets=(9, 18, 22))
        for mode in ("bilinear", "bicubic")
        for aligned in (False, True)
        for size in ((5, 4), (23, 17), (12, 3))
    ),
    *(
        Case(to(size=(5, 17), mode=mode, antialias=True), X[2], dynamic=dynamic(2), opsets=(18, 22))
        for mode in ("bilinear", "bicubic")
    ),
)
def test_antialias(check):
    check()


def test_bytes_are_within_one_of_torch():
    """torch weighs bytes with 15 bits and rounds after each axis."""
    image = torch.randint(0, 256, (1, 3, 20, 24), dtype=torch.uint8)
    for options in ({"mode": "bilinear"}, {"mode": "bicubic"}, {"mode": "bilinear", "antialias": True}):
        check_case(Case(to(size=(13, 31), **options), image, rtol=0.0, atol=1.0), 18)


@pytest.mark.parametrize(("mode", "first"), [("bicubic", 11), ("bilinear", 18)])
def test_the_error_names_the_first_opset(mode, first):
    case = Case(to(size=(5, 17), mode=mode, antialias=first == 18), X[2], dynamic=dynamic(2))
    with pytest.raises(Exception, match=f"opset_version={first}"):
        check_case(case, first - 1, dynamic=True)


@cases(
    Case(to(size=(5, 4), mode="area"), X[2], dynamic={0: [0]}, opsets=(9, 18), name="area"),
    Case(torch.nn.Upsample(scale_factor=2, mode="bilinear"), X[2], dynamic=dynamic(2), opsets=(9, 18), name="Upsample"),
    Case(torch.nn.UpsamplingBilinear2d(scale_factor=2), X[2], dynamic={0: [0]}, opsets=(9, 18), name="UpsamplingBilinear2d"),
)
def test_modules(check):
    check()


@pytest.mark.parametrize(
    "how", [{"scale_factor": 2.0}, {"size": (24, 31)}, {"scale_factor": 2.0, "recompute_scale_factor": True}]
)
@pytest.mark.parametrize("axes", [{0: "n"}, {0: "n", 2: "h", 3: "w"}])
def test_resize_names_no_axes(how: dict[str, Any], axes: dict[int, str]) -> None:
    """The scales or sizes are those of all axes, which every runtime takes."""
    program = onnxexp.export(to(**how), (X[2],), dynamic_shapes=(axes,), opset_version=18)
    resizes = [node for node in program.model.graph if node.op_type == "Resize"]
    assert len(resizes) == (len(axes) == 1 or how == {"scale_factor": 2.0}), "else Gather takes the nearest neighbours"
    assert all("axes" not in node.attributes for node in resizes)
    for x in (X[2], torch.randn(3, 3, 12, 10)):
        torch.testing.assert_close(program(x), to(**how)(x))


@pytest.mark.parametrize("opset", [11, 17, 20])
def test_resize_has_its_modes(opset: int) -> None:
    """MNN and OpenCV do not take an absent mode for the default."""
    program = onnxexp.export(to(scale_factor=2.0, mode="bilinear"), (X[2],), opset_version=opset)
    (resize,) = (node for node in program.model.graph if node.op_type == "Resize")
    assert {name: attribute.value for name, attribute in resize.attributes.items()} == {
        "coordinate_transformation_mode": "half_pixel", "mode": "linear", "nearest_mode": "round_prefer_floor",
    }  # fmt: skip
