"""Integers in operators that ONNX has for floats only."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnxexp

WEIGHT = torch.tensor([1, 2, 3])


def convolved(x: Tensor) -> Tensor:
    return functional.conv1d(x[None, None], WEIGHT.to(x.dtype)[None, None])[0, 0]


def averaged(x: Tensor) -> Tensor:
    return functional.avg_pool1d(x[None, None], 3)[0, 0]


def by_windows(x: Tensor) -> Tensor:
    return (x.unfold(0, 3, 1) * WEIGHT).sum(-1)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("model", [convolved, averaged])
def test_wide_integers_are_rounded_with_a_warning(model: Callable[[Tensor], Tensor], capture: str) -> None:
    x = torch.arange(8) + 2**25
    with pytest.warns(
        UserWarning, match=r"aten::\w+ of int64 is computed in float32, .* above 2\*\*24 .*line \d+.*to fix this, "
    ):
        program = onnxexp.export(model, (x,), capture=capture)
    assert not torch.equal(program(x), model(x))
    torch.testing.assert_close(program(x % 1000), model(x % 1000))


def test_the_fix() -> None:
    x = torch.arange(8) + 2**25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(by_windows, (x,), dynamic_shapes=({0: "n"},))
    for size in (3, 8, 11):
        x = torch.arange(size) + 2**40
        assert torch.equal(program(x), by_windows(x)) and torch.equal(by_windows(x), convolved(x))


def test_narrow_integers_give_no_warning() -> None:
    x = torch.arange(8, dtype=torch.int16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(onnxexp.export(convolved, (x,))(x), convolved(x))
