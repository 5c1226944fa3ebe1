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


def pieces(x: Tensor) -> Tensor:
    stride = x.shape[0]
    return torch.stack([x[offset : offset + stride] * 2 for offset in range(0, x.shape[0], stride)])


def ends(x: Tensor) -> Tensor:
    assert isinstance(range(3), range)
    return sum((x[-1] * index for index in range(x.shape[0], x.shape[0] + 3)), x) * len(range(x.shape[0], x.shape[0]))


def backwards(x: Tensor) -> Tensor:
    for place in range(x.shape[0], 0, -1):
        x = x + place
    return x


def up_to_two(x: Tensor) -> Tensor:
    for _ in range(x.shape[0], 2):
        x = x + 5
    return x


def downwards(x: Tensor) -> Tensor:
    """Two rounds, at any size."""
    for place in range(2 * x.shape[0], 0, -x.shape[0]):
        x = x + place
    return x


@pytest.mark.parametrize("model", [backwards, up_to_two])
def test_a_range_of_another_length_at_other_sizes_is_refused(model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(onnxexp.CaptureError, match="fixes it to 4"):
        onnxexp.export(model, (torch.ones(4),), capture="export", dynamic_shapes=({0: "n"},))


MODELS = [roots, scaled, halves, unknown, pieces]


@pytest.mark.parametrize(
    ("model", "capture"),
    [
        *((model, capture) for model in MODELS for capture in ("export", "trace")),
        (ends, "export"),
        (downwards, "export"),
    ],  # a trace has numbers there
)
def test_the_result_is_a_size(model: Callable[[Tensor], Tensor], capture: str) -> None:
    program = onnxexp.export(model, (torch.ones(3),), capture=capture, dynamic_shapes=({0: "n"},))
    for size in (1, 2, 5, 8):
        x = torch.arange(float(size)) - 1
        torch.testing.assert_close(program(x), model(x))
