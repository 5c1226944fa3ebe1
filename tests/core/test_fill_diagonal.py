"""`fill_diagonal_`, which has no functional form, of static and dynamic axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxexp

N_M: Any = ({0: "n", 1: "m"},)


def filled(x: Tensor) -> Tensor:
    y = x + 0
    y.fill_diagonal_(0.5).add_(1)
    return y


def filled_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    y[1:].fill_diagonal_(3)
    y.t().fill_diagonal_(-1.0)
    return y, y.flatten()


def filled_cube(x: Tensor) -> Tensor:
    y = x[:, :, None] * torch.ones(x.shape[0])
    y.fill_diagonal_(2)
    return y


def wrapped(x: Tensor) -> Tensor:
    y = x + 0
    y.fill_diagonal_(0.5, wrap=True)
    return y


def wrapped_part(x: Tensor) -> Tensor:
    y = (x + 0)[:, :2]
    y.fill_diagonal_(0.5, wrap=True)
    return y


def wrapped_copy(x: Tensor) -> Tensor:
    y = (x + 0)[:, :2].contiguous()
    y.fill_diagonal_(0.5, wrap=True)
    return y


def wrapped_by_hand(x: Tensor) -> Tensor:
    y = (x + 0).flatten()
    y[:: x.shape[1] + 1] = 0.5
    return y.view(x.shape)


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("model", [filled, filled_view])
def test_matrices(model: Callable[..., Any], capture: str, opset: int) -> None:
    options: Any = {"capture": capture, "opset_version": opset}
    program = onnxexp.export(model, (torch.randn(4, 3),), dynamic_shapes=N_M, **options)
    for shape in [(4, 3), (3, 4), (2, 2), (6, 2), (2, 7), (1, 3), (3, 1)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))
    static = onnxexp.export(model, (torch.randn(2, 5),), **options)
    x = torch.randn(2, 5)
    torch.testing.assert_close(static(x), model(x))


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_all_axes_are_equal(capture: str) -> None:
    program = onnxexp.export(filled_cube, (torch.randn(3, 3),), dynamic_shapes=({0: "n", 1: "n"},), capture=capture)
    for size in (1, 2, 3, 5):
        x = torch.randn(size, size)
        torch.testing.assert_close(program(x), filled_cube(x))


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_wrap_has_a_fix(capture: str) -> None:
    x = torch.randn(7, 3)
    with pytest.raises(onnxexp.CaptureError, match=r"fill_diagonal_ with wrap=True.*\n?.*to fix this, write through x.flatten"):
        onnxexp.export(wrapped, (x,), capture=capture)
    torch.testing.assert_close(onnxexp.export(wrapped_by_hand, (x,), capture=capture)(x), wrapped(x))


def test_wrap_in_a_tall_matrix() -> None:
    program = onnxexp.export(wrapped, (torch.randn(7, 3),), dynamic_shapes=N_M, capture="export")
    for shape in [(7, 3), (3, 7), (12, 2), (1, 1), (0, 3), (9, 4), (6, 1)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), wrapped(x))


@pytest.mark.parametrize("dynamic", [None, N_M])
def test_wrap_between_gaps_has_a_fix(dynamic: Any) -> None:
    x = torch.randn(12, 4)
    with pytest.raises(onnxexp.CaptureError, match=r"not contiguous; to fix this, fill a copy, x.contiguous\(\)"):
        onnxexp.export(wrapped_part, (x,), dynamic_shapes=dynamic, capture="export")
    program = onnxexp.export(wrapped_copy, (x,), dynamic_shapes=dynamic, capture="export")
    torch.testing.assert_close(program(x), wrapped_copy(x))
