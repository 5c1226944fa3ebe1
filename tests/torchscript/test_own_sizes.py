"""The sizes of the user's own example, where the trace has larger ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp import CaptureError

from .running import exported

AXES = ({0: "n", 1: "m"},)


def sliced(x: Tensor) -> Tensor:
    sizes = [5, 6, 7]
    return x.new_zeros(sizes[1 : x.size(0) + 1][:2])


def branching(x: Tensor) -> Tensor:
    return x.exp() if x.shape[0] == 1 else x.cos()


def counted(x: Tensor) -> tuple[Tensor, ...]:
    return (x,) if x.shape[0] == 1 else (x, x + 1)


class Scripted(nn.Module):
    """A trace with a scripted part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(nn.ReLU())

    def forward(self, x: Tensor) -> Any:
        return self.part(x.squeeze(0) if x.shape[0] == 1 else x)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sliced, r"expected float32\[6\], got float32\[6, 7\]; .*axis 0 of x from 1 to 2"),
    ],
    ids=["index"],
)
def test_a_trace_that_is_wrong_for_the_example_itself_is_refused(model: Callable[..., Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        onnxexp.export(model, (torch.randn(1, 3),), capture="trace", dynamic_shapes=AXES)


@pytest.mark.parametrize("model", [branching, counted, Scripted()], ids=["branch", "count", "scripted"])
def test_a_branch_on_the_size_of_the_example_is_told(model: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning, match="right only where n != 1"):
        program = onnxexp.export(model, (torch.randn(1, 3),), capture="trace", dynamic_shapes=AXES)
    program.verify(torch.randn(5, 3))
    with pytest.raises(onnxexp.OnnxExporterError, match="n != 1"):
        program(torch.randn(1, 3))


def equal(x: Tensor) -> Tensor:
    return x.cos() if x.shape[0] == 1 else (x + 0).cos()


@pytest.mark.parametrize("model", [equal, Scripted().part], ids=["equal", "no numbers"])
def test_another_branch_with_the_same_result_is_none(model: Callable[..., Any]) -> None:
    x = torch.randn(1, 3)
    exported(model, (x,), capture="trace", dynamic_shapes=AXES).verify()


def test_an_example_of_two_is_the_fix() -> None:
    with pytest.warns(UserWarning, match="Tracing fixes the branches"):
        program = onnxexp.export(branching, (torch.randn(2, 3),), capture="trace", dynamic_shapes=AXES)
    program.verify(torch.randn(5, 3))
