"""Equalities over sizes that are computed from dynamic axes: they fix the axis."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from onnxexp import CaptureError, export
from onnxexp._torch_export.frozen_sizes import loop_fix


def by_derived_size(x: Tensor) -> Tensor:
    halved = x[:, ::2]
    return halved * 2 if halved.shape[1] == 5 else halved * 3


def by_pooled_size(x: Tensor) -> Tensor:
    pooled = functional.max_pool1d(x, 2)
    return pooled * 2 if pooled.shape[1] == 1 else pooled * 3


def by_product(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] * x.shape[1] == 30 else x * 3


def by_broadcasting(x: Tensor) -> Tensor:
    """Multiply parts of 2 rows and 1 in the example, equal at most other sizes."""
    first, second, _ = x.tensor_split(3)
    return first * second


def of_each(x: Tensor) -> Tensor:
    total = x.sum()
    for part in x.split(4):
        total = total * part.max()
    return total


class Encoder(nn.Module):
    """Patches with their own position table, as vision transformers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 2, stride=2)
        self.positions = nn.Parameter(torch.randn(1, 4, 5, 5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x)
        if y.shape[2] == 5 and y.shape[3] == 5:
            return y + self.positions
        return y + functional.interpolate(self.positions, size=y.shape[2:], mode="bilinear")


FROZEN: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "slice": (by_derived_size, (2, 10), "(x_dim_1 + 1)//2 == 5"),
    "pool": (by_pooled_size, (2, 3), "x_dim_1//2 == 1"),
    "product": (by_product, (5, 6), "x_dim_0*x_dim_1 == 30"),
    "split": (of_each, (8, 3), "(x_dim_0 + 3)//4 == 2"),
    "rounded": (lambda x: x * 2 if math.floor(x.shape[0] * 0.3) == 2 else x, (8, 4), "FloorToInt(0.3*x_dim_0) == 2"),
    "one of two": (lambda x: x * 2 if x.shape[0] in (8, 16) else x, (8, 4), "x_dim_0 == 8 or x_dim_0 == 16"),
}


@pytest.mark.parametrize(("model", "shape", "condition"), FROZEN.values(), ids=FROZEN)
def test_a_frozen_axis_is_refused(model: Callable[..., Any], shape: tuple[int, ...], condition: str) -> None:
    for capture in ("export", "trace"):
        with pytest.raises(CaptureError) as caught:
            export(model, (torch.randn(shape),), dynamic_axes={"x": [0, 1]}, capture=capture)
        if capture == "export":
            message = rf"fixes a size that is computed from a dynamic axis: {re.escape(condition)} \(File .*; to fix this, "
            assert re.search(message, str(caught.value)), caught.value


@pytest.mark.parametrize("part", [0, 1, 2])
def test_pieces_of_one_element_in_the_example(part: int) -> None:
    """torch fixes the axis at 2 columns; 4 columns also have pieces of one, 6 none."""

    def model(x: Tensor) -> Tensor:
        return x.tensor_split(3, -1)[part] * 2

    program = export(model, (torch.randn(2, 2),), dynamic_axes={"x": [1]}, capture="export")
    for size in (2, 3, 4, 6, 7):
        x = torch.randn(2, size)
        torch.testing.assert_close(program(x), model(x))


def test_sizes_that_broadcast_in_the_example_only() -> None:
    """torch.export takes the sizes for equal, so the file failed on the user's own."""
    x = torch.randn(4, 3)
    with pytest.raises(CaptureError, match=r"computed from a dynamic axis: \(x_dim_0 \+ 1\)//3 == 1 \(File "):
        export(by_broadcasting, (x,), dynamic_axes={"x": [0]}, capture="export")
    program = export(by_broadcasting, (x,), dynamic_axes={"x": [0]}, capture="trace")
    for size in (4, 5, 6, 9):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), by_broadcasting(x))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.filterwarnings("ignore:the exported model is right only where .* != 5:UserWarning")
def test_the_fix_is_an_example_of_another_size(capture: Any) -> None:
    model = Encoder().eval()
    with pytest.raises(CaptureError):
        export(model, (torch.randn(1, 3, 10, 10),), dynamic_axes={"x": [2, 3]}, capture=capture)
    program = export(model, (torch.randn(1, 3, 14, 16),), dynamic_axes={"x": [2, 3]}, capture=capture)
    for size in ((8, 20), (14, 16), (23, 4)):
        x = torch.randn(1, 3, *size)
        torch.testing.assert_close(program(x), model(x), atol=1e-5, rtol=1e-5)


def test_equalities_that_hold_at_many_sizes_are_warnings() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return x * 2 if (x.shape[0] // 2) % 16 == 3 else x * y.sum()

    with pytest.warns(UserWarning, match=r"right only where \(n//2\) % 16 == 3"):
        export(model, (torch.ones(6), torch.ones(3)), dynamic_shapes={"x": {0: "n"}, "y": None}, capture="export")


def test_a_condition_that_cannot_be_computed_at_large_sizes() -> None:
    def model(x: Tensor) -> Tensor:
        half = x.shape[0] // 2
        return torch.cat(x[half:-half].chunk(2)[::-1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = export(model, (torch.arange(3.0),), dynamic_axes={"x": [0]}, capture="export")
    torch.testing.assert_close(program(torch.arange(3.0)), model(torch.arange(3.0)))


@pytest.mark.parametrize(
    ("line", "loops"),
    [
        ('File "m.py", line 3, in encoder (Net): return torch.cat([part.flip(0) for part in x.split(2, 0)])', True),
        ('File "m.py", line 3: for i, row in enumerate(x.unbind(0)):', True),
        ('File "m.py", line 3: for i in range(x.shape[0]):', True),
        ('File "m.py", line 3: first, *others = x.split(2)', False),
        ('File "models for export/m.py", line 3, in encoder (Net): return x.reshape(2, 3)', False),
    ],
)
def test_only_a_loop_gets_the_fix_for_loops(line: str, loops: bool) -> None:
    assert bool(loop_fix(line)) == loops
