"""Sizes as windows, strides and shifts of traced calls that take a list."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnxexp

X = torch.arange(48.0).reshape(2, 4, 6)
DYNAMIC = ({0: "batch", 2: "n"},)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.roll(x, x.size(2) // 4, 2),
        lambda x: x.roll(x.size(2) // 2, -1),
        lambda x: x.roll(shifts=-(x.size(2) // 3), dims=2),
        lambda x: x.roll((x.size(0), x.size(2) // 2), (0, 2)),
        lambda x: functional.adaptive_avg_pool1d(x, (x.size(2) + 3) // 4),
        lambda x: functional.adaptive_max_pool1d(x, (x.size(2) + 3) // 4),
        lambda x: torch.nn.AdaptiveAvgPool1d((x.size(2) + 1) // 2)(x),
    ],
)
def test_a_number_in_place_of_a_list_is_a_size(function: Callable[[Tensor], Tensor]) -> None:
    program = onnxexp.export(function, (X,), capture="trace", dynamic_shapes=DYNAMIC)
    for shape in [(2, 4, 6), (3, 4, 9), (1, 4, 1), (1, 4, 16), (5, 4, 7)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), function(x))


def split(x: Tensor) -> tuple[Tensor, ...]:
    return x.split((x.size(2) + 1) // 2, 2)


def test_split_by_a_size() -> None:
    program = onnxexp.export(split, (X,), capture="trace", dynamic_shapes=DYNAMIC)
    for size in (2, 3, 8, 41):
        x = torch.randn(3, 4, size)
        torch.testing.assert_close(program(x), split(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.avg_pool1d(x, x.size(2) // 2),
        lambda x: functional.max_pool1d(x, kernel_size=x.size(2) // 2),
        lambda x: functional.avg_pool2d(x, 2, x.size(2) // 2),
    ],
)
def test_a_window_that_is_not_lowered_is_an_error(function: Callable[[Tensor], Tensor]) -> None:
    """The tracer makes the window the example's number, without a warning."""
    with pytest.raises(onnxexp.OnnxExporterError, match="_pool"):
        onnxexp.export(function, (X,), capture="trace", dynamic_shapes=DYNAMIC)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.conv1d(x, torch.ones(4, 4, 1), padding=x.size(2) // 4),
        lambda x: functional.conv1d(x, torch.ones(4, 4, 1), None, [(x.size(2) + 3) // 4]),
    ],
)
def test_what_a_convolution_makes_a_constant_is_told(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.warns(UserWarning, match=rf'conv1d takes a size as a constant number at File "{__file__}"'):
        program = onnxexp.export(function, (X,), capture="trace", dynamic_shapes=DYNAMIC, check_sizes=False)
    torch.testing.assert_close(program(X), function(X))
    with pytest.raises(onnxexp.CaptureError, match="a second trace, of .*, differs"):
        onnxexp.export(function, (X,), capture="trace", dynamic_shapes=DYNAMIC)


def test_static_sizes_are_constants() -> None:
    def model(x: Tensor) -> Tensor:
        return functional.avg_pool1d(x.roll(x.size(1) // 4, 1), x.size(2) // 2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(model, (X,), capture="trace")
    torch.testing.assert_close(program(X), model(X))
