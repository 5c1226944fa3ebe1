"""capture/size_functions.py: Python's functions of dynamic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxexp


def roots(x: Tensor) -> Tensor:
    return x[: x.argmax()].sum() + x * math.sqrt(x.shape[0])  # strict mode refuses the index


def scaled(x: Tensor) -> Tensor:
    window = torch.hann_window(x.shape[0])
    return window * len(window)


def halves(x: Tensor) -> Tensor:
    return x[: len(x) // 2] * len(x)


def unknown(x: Tensor) -> Tensor:
    found = x[x > 0]
    return found / len(found)


@pytest.mark.parametrize("model", [roots, scaled, halves, unknown])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_result_is_a_size(model: Callable[[Tensor], Tensor], capture: str) -> None:
    program = onnxexp.export(model, (torch.ones(3),), capture=capture, dynamic_shapes=({0: "n"},))
    for size in (1, 2, 5, 8):
        x = torch.arange(float(size)) - 1
        torch.testing.assert_close(program(x), model(x))
