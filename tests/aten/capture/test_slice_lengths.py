"""Slices whose limits meet at some sizes, at sizes that the export did not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses import fake_impls
from torch.export import Dim

import onnxexp

X = torch.randn(6, 4)
KERNEL = torch.randn(4, 4, 5)


def until_half(x: Tensor) -> Tensor:
    return x[-5 : -(x.shape[0] // 2)]


def conv_with_residual(x: Tensor) -> Tensor:
    """Add a valid convolution to the inner part of its input."""
    image = F.pad(x, (0, 0, 4, 4)).t()[None]
    return (F.conv1d(image, KERNEL) + image[:, :, 2:-2]).flatten(1)


MODELS: dict[str, Callable[[Tensor], Tensor]] = {
    "until half": until_half,
    "without elements": lambda x: until_half(x)[:, x.shape[1] - 1 : 0 : 5],
    "a size": lambda x: torch.zeros(until_half(x).shape[0] + 3),
    "a factor": lambda x: x.sum(0) / (1 + until_half(x).shape[0]),
    "reshaped": lambda x: until_half(x).t().reshape(-1),
    "a view": lambda x: torch.cat([until_half(x), x[:3]]).view(-1, 2),
    "inner": lambda x: x[2:-2],
    "inner sizes": lambda x: x[2:-2].sum(0) / (1 + x[2:-2].shape[0]),
    "empty in the example": lambda x: x[4:-3] + 1,
    "empty by a size": lambda x: x[x.shape[0] // 2 : 3],
    "by a step": lambda x: x[1 : -(x.shape[0] // 3) : 2] * 2,
    "of a slice": lambda x: x[1:-2][1:-1],
    "residual": conv_with_residual,
    "at most nine": lambda x: torch.cat([x[:9], x[-9:] * 2, x[-9:8]]) + x[:9].shape[0],
    "behind the end": lambda x: (x + 0)[:, : x.shape[0]] * 2,
    "from behind the end": lambda x: x[:, x.shape[0] :].sum(1),
    "a step behind the end": lambda x: x.t()[1 : x.shape[0] : 2],
}


@pytest.mark.parametrize("opset", [10, 13, 20])
@pytest.mark.parametrize("name", MODELS)
def test_the_length_is_eagers_at_every_size(name: str, opset: int) -> None:
    function = MODELS[name]
    with warnings.catch_warnings(record=True):  # of the limits themselves: -5 is within the axis
        program = onnxexp.export(function, (X,), capture="export", opset_version=opset, dynamic_shapes=({0: "n"},))
    tried = 0
    for size in (1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 15, 20):
        x = torch.randn(size, 4)
        if not all(allows([x]) for allows in program.signature.restrictions.values()):
            assert size < 5
        elif opset >= 14 or name not in ("reshaped", "by a step") or function(x).numel():  # sizes of 0 need allowzero
            torch.testing.assert_close(program(x), function(x))
            tried += 1
    assert tried >= 3


@pytest.mark.parametrize("name", ["inner", "inner sizes", "residual", "at most nine", "behind the end", "a step behind the end"])
def test_nothing_is_told(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxexp.export(MODELS[name], (X,), capture="export", dynamic_shapes=({0: "n"},))


def test_a_range_in_which_the_limits_never_meet() -> None:
    program = onnxexp.export(MODELS["inner"], (X,), capture="export", dynamic_shapes=({0: Dim("n", min=5)},))
    assert "(output: float32[n - 4, 4])" in repr(program)


@pytest.mark.parametrize("size", [2, 3])
def test_a_limit_behind_an_axis_of_two(size: int) -> None:
    """torch takes a dynamic size for 2 or more."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(
            lambda x: x[:, :2].t()[: x.shape[0]] + 1, (torch.randn(size, 4),), capture="export", dynamic_shapes=({0: "n"},)
        )
    for n in (1, 2, 3, 7):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), x[:, :2].t()[:n] + 1)


def test_in_strict_mode() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
                raise NotImplementedError
            return x[4:-3] + 1

    with warnings.catch_warnings(record=True):
        program = onnxexp.export(Model(), (X,), capture="export", dynamic_shapes=({0: "n"},))
    x = torch.randn(9, 4)
    assert torch.equal(program(x), x[4:-3] + 1)


def test_torch_is_as_it_was_afterwards() -> None:
    before = fake_impls.op_implementations_dict
    onnxexp.export(MODELS["inner"], (X,), capture="export", dynamic_shapes=({0: "n"},))
    assert fake_impls.op_implementations_dict is before
