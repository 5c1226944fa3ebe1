"""creation/windows.py: windows of static and of computed lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxexp
from tests.torchscript.running import exported


def hann(x: Tensor) -> Tensor:
    return torch.hann_window(x.size(0) // 2)


def hamming(x: Tensor) -> Tensor:
    return x * torch.hamming_window(x.size(0), False)


def hamming_of_a_shape(x: Tensor) -> Tensor:
    return torch.hamming_window(x.size(0), True, 0.6, 0.3, dtype=torch.float64)


def blackman(x: Tensor) -> Tensor:
    return torch.blackman_window(x.size(0), periodic=False)


def bartlett(x: Tensor) -> Tensor:
    return torch.bartlett_window(x.size(0) // 2)


def kaiser(x: Tensor) -> Tensor:
    return torch.kaiser_window(x.size(0) // 2)


def kaiser_of_a_shape(x: Tensor) -> Tensor:
    return torch.kaiser_window(x.size(0), False, 3.5)


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("model", [hann, hamming, hamming_of_a_shape, blackman, bartlett, kaiser, kaiser_of_a_shape])
def test_windows(model: Callable[..., Any], capture: str) -> None:
    for opset in (9, 20):
        program = exported(model, (torch.rand(8),), dynamic_shapes=({0: "n"},), capture=capture, opset_version=opset)
        for size in (8, 9, 7, 3, 2, 1, 40, *([0] if opset > 13 else [])):
            x = torch.rand(size)
            torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_a_window_of_a_static_length_is_a_constant(capture: str) -> None:
    program = onnxexp.export(hamming, (torch.rand(8),), capture=capture)
    assert [node.op_type for node in program.model.graph] == ["Mul"]
