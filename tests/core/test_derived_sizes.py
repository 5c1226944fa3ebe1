"""`frozen_sizes`: sizes computed from an input's, that are 1 or 0 in the example."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

import onnxexp
from onnxexp._errors import CaptureError
from onnxexp._program.program import ONNXProgram


def told(model: Callable[..., Any], shape: tuple[int, ...], axes: dict[int, Any]) -> tuple[ONNXProgram, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(model, (torch.rand(shape),), capture="export", dynamic_shapes=(axes,))
    return program, [str(warning.message) for warning in caught]


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, 2, 1)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Conv2d(inputs, outputs, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


def network(*last: nn.Module) -> nn.Module:
    stem = (nn.Conv2d(3, 4, 7, 2, 3), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, Residual(4, 4), Residual(4, 6), Residual(6, 6), nn.AdaptiveAvgPool2d(1), *last)


def squeezed(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = functional.conv2d(x, torch.ones(3, 3, 3, 3) / 27, stride=2, padding=1)
    return functional.adaptive_avg_pool2d(x, 1).squeeze(3).squeeze(2)


IMAGES = [(2, 3, 32, 64), (1, 3, 96, 96), (3, 3, 64, 128), (1, 3, 33, 200), (1, 3, 32, 32), (2, 3, 32, 16), (1, 3, 1, 1)]
LENGTHS = [(2, 4, 3), (1, 4, 3), (2, 4, 2), (1, 4, 5), (3, 4, 16)]


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (network(nn.Flatten(), nn.Linear(6, 5)), IMAGES),
        (squeezed, IMAGES),
        (squeezed, [(2, 3, 16, 32), *IMAGES]),
        (lambda x: functional.lp_pool1d(x.abs() + 0.1, 2, 2).view(x.shape[0], -1), LENGTHS),
        (lambda x: functional.max_pool1d(x, 2).flatten(1), LENGTHS),
        (lambda x: functional.max_pool1d(x, 2).mean(2, keepdim=True) + x, LENGTHS),
        (lambda x: torch.cat([x[..., : x.shape[2] // 4], x], 2) * 2, LENGTHS),
        (lambda x: x[..., ::4].expand(2, *x.shape[:2], -1).reshape(2, -1), LENGTHS),
    ],
)
@pytest.mark.parametrize("dim", [None, Dim.AUTO])
def test_a_size_of_1_is_not_fixed(model: Callable[..., Any], shapes: list[tuple[int, ...]], dim: Any) -> None:
    example = shapes[0]
    program, warned = told(model, example, {axis: dim or f"d{axis}" for axis in (0, *range(2, len(example)))})
    assert not warned
    for shape in shapes:
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_axes_of_one_name_grow_together() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x @ x, (2, 1)) + torch.ones(1, x.shape[1])

    program, warned = told(model, (2, 3, 3), {1: "n", 2: "n"})
    assert not warned
    for size in (2, 3, 8):
        x = torch.rand(2, size, size)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: functional.max_pool1d(x, 2).squeeze(-1) + 1,
        lambda x: functional.max_pool1d(x, 2).squeeze() + 1,
        lambda x: functional.max_pool2d(x, (1, 2)).squeeze((0, -1)) + 1,
        lambda x: x.chunk(6, 2)[0].squeeze(2) + 1,
        lambda x: x.tensor_split(2, 2)[1].squeeze() + 1,
    ],
)
def test_a_removed_axis_is_an_error(model: Callable[..., Any]) -> None:
    """Its size is 1 in the example, and the result has another rank where it is not."""
    with pytest.raises(CaptureError, match=r"size: .*n.* == 1 \(File .*squeeze"):
        told(model, (1, 4, 3), {2: "n"})


def by_size(x: torch.Tensor) -> torch.Tensor:
    y = functional.max_pool1d(x, 2)
    return y * 2 if y.shape[2] == 1 else y * 3


@pytest.mark.parametrize(
    ("model", "length", "condition"),
    [
        (by_size, 8, "n//2 != 1"),
        (lambda x: functional.max_pool1d(x, 2).squeeze(2) + 1, 8, "n//2 != 1"),
    ],
)
def test_what_the_size_1_decides_is_told(model: Callable[..., Any], length: int, condition: str) -> None:
    """The warning also comes where torch has evaluated the same condition before."""
    program, warned = told(model, (1, 4, length), {2: "n"})
    assert len(warned) == 1
    assert f"right only where {condition} (File " in warned[0]
    x = torch.rand(1, 4, length)
    torch.testing.assert_close(program(x), model(x))


def step(tokens: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Run a decoder's step that pads its mask as transformers does."""
    missing = past.shape[1] + tokens.shape[1] - mask.shape[1]
    mask = functional.pad(mask, (0, missing)) if missing > 0 else mask
    return torch.cat([past, tokens], 1) * mask


@pytest.mark.parametrize(("new", "past"), [(1, 0), (1, 1), (2, 0), (1, 3), (2, 3), (4, 5)])
def test_an_axis_that_is_a_sum_grows_with_its_terms(new: int, past: int) -> None:
    def inputs(batch: int, new: int, past: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(batch, new), torch.rand(batch, past), torch.rand(batch, past + new)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = tuple({0: "batch", 1: name} for name in ("new", "past", "total"))
        program = onnxexp.export(step, inputs(1, new, past), capture="export", dynamic_shapes=axes)
    for sizes in ((1, new, past), (1, 1, 0), (2, 1, 1), (3, 1, 6), (2, 3, 4)):
        args = inputs(*sizes)
        torch.testing.assert_close(program(*args), step(*args))


@pytest.mark.parametrize(
    ("model", "shape", "captures"),
    [
        (network(nn.Flatten()), (2, 3, 96, 64), 1),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (1, 7, 4), 1),
        (network(nn.Flatten()), (2, 3, 32, 64), 2),
    ],
)
def test_a_model_without_small_sizes_is_captured_once(
    model: nn.Module, shape: tuple[int, ...], captures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, original = [], torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **options: (calls.append(1), original(*args, **options))[1])
    program, warned = told(model.eval(), shape, {0: "batch", **({2: "height", 3: "width"} if len(shape) == 4 else {1: "time"})})
    assert len(calls) == captures and not warned
    assert program.model.graph.inputs
