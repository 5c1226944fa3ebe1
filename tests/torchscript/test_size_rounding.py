"""Sizes that Python's math module rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnxexp
from onnxexp import CaptureError

from .running import exported

AXES = ({0: "batch", 1: "length"},)


def padded(x: Tensor) -> Tensor:
    length = x.shape[1]
    return functional.pad(x, (0, math.ceil(length / 8) * 8 - length)).reshape(x.shape[0], -1, 8).sum(1)


def half(x: Tensor) -> Tensor:
    return x[:, : math.floor(x.shape[1] * 0.5)] + 1


def filled(x: Tensor) -> Tensor:
    return x.new_zeros(math.ceil(x.shape[1] / 3), math.trunc(x.shape[1] / 2)) + x[0, 0]


def ratio(x: Tensor) -> Tensor:
    return x.new_ones(math.ceil(x.shape[1] / x.shape[0])) * x.sum()


def whole(x: Tensor) -> Tensor:
    return x[:, math.floor(x.shape[1]) - 1 :]


def item(x: Tensor) -> Tensor:
    length: Any = x.shape[1]
    return x[:, (length.item() if isinstance(length, Tensor) else length) // 2 :]


def same_padding(x: Tensor) -> Tensor:
    """Pad as TensorFlow does; timm's layers compute so in a trace, where a size is a tensor."""
    length: Any = x.shape[1]
    if isinstance(length, Tensor):
        added = torch.clamp(((length / 2).ceil() - 1) * 2 + 3 - length, min=0)
    else:
        added = max((math.ceil(length / 2) - 1) * 2 + 3 - length, 0)
    return functional.pad(x, (added // 2, added - added // 2))


def rounded_floats(x: Tensor) -> Any:
    """Return floats that are whole, as tensors in a trace."""
    length: Any = x.shape[1]
    if isinstance(length, Tensor):
        half = (length / 2).floor()
        return x * half, x + torch.clamp(half - 1, 2, 4), x - torch.clamp_max(length, 3), half.clamp_min(2) / x.exp()
    half = float(length // 2)
    return x * half, x + min(max(half - 1, 2), 4), x - min(length, 3), max(half, 2) / x.exp()


@pytest.mark.parametrize("model", [padded, half, filled, ratio, whole, item, same_padding, rounded_floats])
@pytest.mark.parametrize("opset", [11, 13, 20])
def test_a_rounded_size_stays_one(model: Callable[[Tensor], Tensor], opset: int) -> None:
    program = exported(model, (torch.randn(2, 5),), capture="trace", dynamic_shapes=AXES, opset_version=opset)
    for shape in [(2, 5), (3, 8), (1, 17), (4, 2), (2, 9), (5, 1), (3, 240)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def tenth(x: Tensor) -> Tensor:
    return x[:, : math.ceil(x.shape[1] * 0.1)]


def window(x: Tensor) -> Tensor:
    return functional.pad(x, (0, int(x.shape[1] / 8 + 0.99)))


def value(x: Tensor) -> Tensor:
    return x[:, : math.floor(x.abs().sum() * 0 + x.shape[1] / 2)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [tenth, window, value])
def test_what_is_not_exact_is_an_error(model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureError, match="a second trace"):
        onnxexp.export(model, (torch.randn(2, 20),), capture="trace", dynamic_shapes=AXES)
