"""Sizes that ``int()`` and ``float()`` convert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp import CaptureError

from .running import exported

AXES = ({0: "batch", 1: "length"},)
SHAPES = [(2, 6), (3, 8), (1, 17), (4, 1), (2, 9), (5, 0), (7, 240)]


def raised(x: Tensor) -> Tensor:
    return x + float(x.shape[1])


def ratio(x: Tensor) -> Tensor:
    return x.half() * (float(x.shape[1]) / max(float(x.shape[0]), 1.0))


def integers(x: Tensor) -> Tensor:
    return x.int() + float(x.shape[1])


def half(x: Tensor) -> Tensor:
    return x[:, : int(x.shape[1] / 2)]


def grid(x: Tensor) -> Tensor:
    rows, columns = map(int, x.shape)
    return x.new_zeros(rows, int(columns * 0.5))


@pytest.mark.parametrize("model", [raised, ratio, integers, half, grid])
def test_a_converted_size_stays_one(model: Callable[[Tensor], Tensor]) -> None:
    program = exported(model, (torch.randn(2, 6),), capture="trace", dynamic_shapes=AXES)
    for shape in SHAPES:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_conversions_are_python_s_again_after_the_export() -> None:
    exported(raised, (torch.randn(2, 6),), capture="trace", dynamic_shapes=AXES)
    assert not {"int", "float"} & globals().keys()


def of_values(x: Tensor) -> Tensor:
    return x * float(x.sum()) + float(x.shape[1])


def inexact(x: Tensor) -> Tensor:
    return x[:, : int(x.shape[1] * 0.3)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [of_values, inexact])
def test_what_is_not_known_is_an_error(model: Callable[[Tensor], Any]) -> None:
    with pytest.raises(CaptureError, match="a second trace"):
        onnxexp.export(model, (torch.randn(2, 20),), capture="trace", dynamic_shapes=AXES)


SOURCE = """
def forward(x):
    kinds = {float: 1.0}
    return x * kinds[float] + float(x.shape[1])
"""


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_uses_the_type_as_a_value_keeps_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "types_as_values.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import types_as_values  # type: ignore[import-not-found]

    with pytest.raises(CaptureError, match="a second trace"):
        onnxexp.export(types_as_values.forward, (torch.randn(2, 6),), capture="trace", dynamic_shapes=AXES)
