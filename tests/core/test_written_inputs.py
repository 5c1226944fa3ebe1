"""Inputs that the forward changes in place, and inputs that share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxexp

pytestmark = pytest.mark.filterwarnings("ignore:the forward writes into")


class Writes(nn.Module):
    def forward(self, written: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        written.mul_(2)
        return written + read.sum()


class Clones(nn.Module):
    def forward(self, written: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        return written.clone().mul_(2) + read.sum()


class ReadsSizes(nn.Module):
    def forward(self, written: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return written.mul_(2)


def _twice() -> tuple[torch.Tensor, ...]:
    x = torch.arange(6.0).view(2, 3)
    return x, x


def _row() -> tuple[torch.Tensor, ...]:
    x = torch.arange(6.0).view(2, 3)
    return x[1], x


def _other_dtype() -> tuple[torch.Tensor, ...]:
    x = torch.arange(6.0)
    return x, x.view(torch.int16)


def _columns() -> tuple[torch.Tensor, ...]:
    x = torch.arange(6.0).view(3, 2)
    return x[:, 0], x[:, 1]


def _rows() -> tuple[torch.Tensor, ...]:
    x = torch.arange(6.0).view(2, 3)
    return x[0], x[1]


def _export(model: nn.Module, args: tuple[Any, ...], capture: str) -> onnxexp.ONNXProgram:
    return onnxexp.export(model, args, capture=capture, opset_version=20)


@pytest.mark.parametrize("capture", ["auto", "export", "trace", "script"])
@pytest.mark.parametrize("example", [_twice, _row, _other_dtype])
def test_shared_memory_is_refused(example: Callable[[], tuple[torch.Tensor, ...]], capture: str) -> None:
    with pytest.raises(
        onnxexp.CaptureError, match="written and read share memory.*writes into written.*to fix this, pass a clone"
    ):
        _export(Writes(), example(), capture)


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("example", [_twice, _row])
def test_fixes(example: Callable[[], tuple[torch.Tensor, ...]], capture: str) -> None:
    for model, args in ((Writes(), tuple(arg.clone() for arg in example())), (Clones(), example())):
        program = _export(model, args, capture)
        torch.testing.assert_close(program(*args), model(*args))


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize(("model", "example"), [(Writes(), _columns), (Writes(), _rows), (ReadsSizes(), _twice)])
def test_no_element_in_common_or_not_read(
    model: nn.Module, example: Callable[[], tuple[torch.Tensor, ...]], capture: str
) -> None:
    program = _export(model, example(), capture)
    torch.testing.assert_close(program(*example()), model(*example()))


class Reshapes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.squeeze_(1)
        x.unsqueeze_(0)
        return x * 2


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_shape_that_changes_in_place(capture: str) -> None:
    example = torch.randn(3, 1, 4)
    program = onnxexp.export(Reshapes(), (example,), dynamic_shapes=({0: "n"},), capture=capture)
    assert example.shape == (3, 1, 4)
    for size in (1, 2, 5):
        x = torch.randn(size, 1, 4)
        torch.testing.assert_close(program(x), Reshapes()(x.clone()))


class Transposes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.transpose_(0, 1)
        return x - x.sum()


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("size", [3, 4])
def test_an_axis_that_takes_the_place_of_another(size: int, capture: str) -> None:
    """torch.export takes the static size after the change for the dynamic axis."""
    program = onnxexp.export(Transposes(), (torch.randn(size, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    for n in (1, 2, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), Transposes()(x.clone()))
