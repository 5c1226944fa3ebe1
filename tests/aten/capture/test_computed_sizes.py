"""Operators whose size is computed from the inputs' sizes, at unseen sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxexp
from tests.torch_versions import needs_torch

SIZES = (40, 44, 13, 8, 7, 4, 3, 2, 1)

MODELS: dict[str, Callable[..., Any]] = {
    "linspace": lambda x: torch.linspace(0, 1, x.shape[1] // 4) + x.sum() * 0,
    "linspace of a dtype": lambda x: torch.linspace(-3.5, 20, steps=x.shape[1] // 2, dtype=torch.int64),
    "linspace of float64": lambda x: torch.linspace(5.0, -2.0, x.shape[1], dtype=torch.float64),
    "linspace around 0": lambda x: torch.linspace(-1, 1, x.shape[1]) == 0,
    "linspace to a size": lambda x: torch.linspace(0, x.shape[1], x.shape[1] // 2),
    "logspace": lambda x: torch.logspace(-1, 2, x.shape[1] // 2),
    "logspace of a base": lambda x: torch.logspace(0, 5, x.shape[1] // 2, 2.0, dtype=torch.float64),
    "hann": lambda x: torch.hann_window(x.shape[1] // 2),
    "hann, symmetric": lambda x: torch.hann_window(x.shape[1] // 2, periodic=False),
    "hamming": lambda x: torch.hamming_window(x.shape[1] // 2, dtype=torch.float64),
    "hamming of a shape": lambda x: torch.hamming_window(x.shape[1] // 2, False, 0.5, 0.4),
    "hamming by name": lambda x: torch.hamming_window(x.shape[1] // 2, True, alpha=0.6, beta=0.3),
    "blackman": lambda x: torch.blackman_window(x.shape[1] // 2),
    "blackman, symmetric": lambda x: torch.blackman_window(x.shape[1] // 2, False),
    "bartlett": lambda x: torch.bartlett_window(x.shape[1] // 2),
    "bartlett, symmetric": lambda x: torch.bartlett_window(x.shape[1] // 2, periodic=False),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 2 * x.shape[1]),
    "one_hot of the size": lambda x: F.one_hot(x.argmin(1), num_classes=x.shape[1]),
    "roll": lambda x: torch.roll(x, x.shape[1] // 4, 1),
    "roll of all": lambda x: x.roll(x.shape[1] // 4),
    "chunk": lambda x: x.chunk(2, 1)[0],
    "last chunk": lambda x: torch.chunk(x, 3, -1)[-1],
    "both ends of chunks": lambda x: torch.cat([x.chunk(4, 1)[-1], x.chunk(4, 1)[0]], 1),
    "first piece": lambda x: x.split(3, 1)[0],
    "last piece": lambda x: torch.split(x, 3, dim=1)[-1],
    "last piece of a computed size": lambda x: x.split(x.shape[1] // 3 + 1, 1)[-1],
    "last row": lambda x: x.unbind(1)[-1] * torch.unbind(x, dim=1)[0],
    "first rows": lambda x: torch.stack(x.unbind(1)[:1]) + sum(x.unbind(1)[-1:]),
    "split": lambda x: x.split([x.shape[1] // 4, x.shape[1] - x.shape[1] // 4], 1)[1],
    "slice by a step": lambda x: x[:, :: x.shape[1] // 4 + 1],
    "slice by a tensor": lambda x: x[:, :: torch.tensor(2)],
    "slice to a tensor": lambda x: x[:, : torch.tensor(x.shape[1] // 2)],
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "repeat_interleave": lambda x: x.repeat_interleave(x.shape[1] // 4, 1),
    "tile": lambda x: x.tile(1, x.shape[1] // 4),
    "eye": lambda x: torch.eye(x.shape[1] // 4),
    "topk": lambda x: x.topk(x.shape[1] // 4)[0],
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(1), 1),
    "take_along_dim of a column": lambda x: x.take_along_dim(x.argmax(1, keepdim=True), dim=-1),
    "take_along_dim of a row": lambda x: torch.take_along_dim(x[:1], x.argsort(1), 1),
    "take_along_dim out of bounds": lambda x: x.take_along_dim(x.argsort(1) * 7 - 50, 1),
    "take_along_dim of all": lambda x: torch.take_along_dim(x, x.argmax()),
    "triu_indices": lambda x: torch.triu_indices(x.shape[1], x.shape[1])[0],
    "tril_indices": lambda x: torch.tril_indices(x.shape[1], 5, x.shape[0] - 3, dtype=torch.int32),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.T, x]),
    "vander of ints": lambda x: torch.vander((x.flatten() * 9).long(), 3),
    "vander of bools": lambda x: torch.vander(x.flatten() > 0.5, 3),
    "vander of halves": lambda x: torch.vander(x.flatten().half().round(), 3),
    "vander, one column": lambda x: torch.vander(x.flatten(), 1),
    "vander": lambda x: torch.vander(x.flatten(), 3),
    "vander, increasing": lambda x: torch.vander(x[0] / x.shape[1], increasing=True),
    "max_pool1d of all": lambda x: F.max_pool1d(x, x.shape[1]),
    "avg_pool2d of all": lambda x: F.avg_pool2d(x[None], x.shape),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], x.shape[1] // 4),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x[None], (1, x.shape[1] // 4)),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[None], x.shape[1] // 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d((x.T @ x)[None], (x.shape[1] // 2, x.shape[1] // 3)),
    "adaptive_max_pool2d of one axis": lambda x: F.adaptive_max_pool2d(x[None], (None, x.shape[1] // 3 + 1)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d((x.T @ x)[None, None], x.shape[1] // x.shape[1]),
    "adaptive_avg_pool2d of 0": lambda x: F.adaptive_avg_pool2d(x[None], (x.shape[0] // 4, 1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_computed_sizes(name: str) -> None:
    model = MODELS[name]
    program = onnxexp.export(model, (torch.rand(2, 40),), dynamic_shapes=({0: "b", 1: "n"},), capture="export")
    for size in SIZES:
        x = torch.rand(2, size)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith(("hann", "hamming", "blackman", "bartlett"))])
def test_windows_in_a_trace(name: str) -> None:
    model = MODELS[name]
    program = onnxexp.export(model, (torch.rand(2, 40),), dynamic_shapes=({1: "n"},), capture="trace")
    for size in SIZES:
        x = torch.rand(2, size)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-6)


OF_UNKNOWN_SIZE: dict[str, Callable[..., Any]] = {
    "roll of rows": lambda x: x[x[:, 0] > 0].roll((1, -1), (0, 1)),
    "roll by half": lambda x: (rows := x[x[:, 0] > 0]).roll(rows.shape[0] // 2, 0),
    "take": lambda x: torch.cat([x[:1, :1], x[x > 0][:, None]]).take(torch.tensor([[0], [-1]])),
}


@pytest.mark.parametrize("name", OF_UNKNOWN_SIZE)
def test_sizes_that_depend_on_values(name: str) -> None:
    model = OF_UNKNOWN_SIZE[name]
    program = onnxexp.export(model, (torch.eye(3),), capture="export")
    for x in (torch.eye(3), torch.zeros(3, 3), torch.arange(9.0).reshape(3, 3), 1 - torch.arange(9.0).reshape(3, 3)):
        torch.testing.assert_close(program(x), model(x))


WRITES: dict[str, Callable[..., Any]] = {
    "a row": lambda x: _with_item(x, x.argmax() % x.shape[0], 3),
    "a column": lambda x: _with_item(x, (slice(None), x[0].argmax()), torch.ones(1, 1, 1)),
    "a part of a row": lambda x: _with_item(x, (x[:, 0].argmin(), slice(1, None)), x[0, 1:] * 2),
    "from the end": lambda x: _with_item(x, (..., -1 - x[0].argmin()), x[:, 0] * 2),
}


def _with_item(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    result = x.clone()
    result[index] = value
    return result


def test_squeeze_of_the_one_element_that_a_mask_selects() -> None:
    def squeezed(x: torch.Tensor, *, k: torch.Tensor) -> torch.Tensor:
        return x[x > 0].squeeze() + k.sum()

    one, k = torch.tensor([-1.0, 2.0]), torch.ones(2)
    with pytest.raises(onnxexp.CaptureError, match=r"x\[x > 0\].squeeze\(\).*one element in the example"):
        onnxexp.export(squeezed, (one,), kwargs={"k": k}, capture="export")
    with pytest.warns(UserWarning, match="squeeze removes axis 0, as for the example"):
        program = onnxexp.export(squeezed, (one,), kwargs={"k": k})
    torch.testing.assert_close(program(one, k=k), squeezed(one, k=k))


@needs_torch((2, 13), "a write at an index that is computed reads its value")
@pytest.mark.parametrize("name", WRITES)
def test_writes_at_a_computed_index(name: str) -> None:
    model = WRITES[name]
    program = onnxexp.export(model, (torch.rand(5, 4),), dynamic_shapes=({0: "b", 1: "n"},), capture="export")
    for sizes in ((5, 4), (2, 7), (1, 3), (6, 1)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), model(x))


def test_a_derived_size_of_1_fixes_nothing() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.unfold(1, 3, 1)

    program = onnxexp.export(model, (torch.rand(2, 3),), dynamic_shapes=({1: "n"},), capture="export")
    for size in (3, 4, 9):
        x = torch.rand(2, size)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("opset", [10, 20])
def test_a_size_that_a_factor_scales(opset: int) -> None:
    """The graph cannot compute int(0.7 * n) from n, but the tensor has that size."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=0.7, mode="area").roll(-1)

    program = onnxexp.export(model, (torch.rand(3, 3, 3),), dynamic_shapes=({2: "n"},), capture="export", opset_version=opset)
    for size in (3, 4, 9, 2):
        x = torch.rand(3, 3, size)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "whole",
    [torch.cat, *(pytest.param(whole, marks=pytest.mark.full) for whole in (lambda parts: torch.cat([*parts, parts[0]]), list))],
)
def test_pieces_whose_length_is_read(whole: Callable[[Any], Any]) -> None:
    program = onnxexp.export(lambda x: whole(x.chunk(2, 1)), (torch.rand(2, 40),), dynamic_shapes=({1: "n"},), capture="export")
    for size in (40, 44, 2):
        x = torch.rand(2, size)
        torch.testing.assert_close(program(x), whole(x.chunk(2, 1)))


@pytest.mark.parametrize("shift", [-1, 2])
def test_roll_of_a_size_that_depends_on_values(shift: int) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0.5].roll(shift)

    program = onnxexp.export(model, (torch.rand(8),), dynamic_shapes=({0: "n"},), capture="export")
    for x in (torch.rand(20), torch.zeros(3), torch.ones(1), torch.ones(2)):
        torch.testing.assert_close(program(x), model(x))


def test_roll_of_sizes_that_are_rounded_products() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=0.7, mode="area").roll(-1)

    program = onnxexp.export(model, (torch.rand(3, 3, 3),), dynamic_shapes=({1: "c", 2: "n"},), capture="export")
    for sizes in ((3, 3, 3), (3, 5, 11), (3, 2, 8)):
        x = torch.rand(sizes)
        torch.testing.assert_close(program(x), model(x))


def test_as_tensor_of_sizes() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = x.shape[0]
        pairs = torch.as_tensor([(rows, 2), (rows + 1, rows // 2)], dtype=torch.long)
        return torch.as_tensor(rows) + 1, torch.as_tensor([rows, 2], dtype=torch.float32), torch.as_tensor(x), pairs

    program = onnxexp.export(model, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="export")
    for size in (3, 7, 1):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))


def test_static_sizes_are_constants() -> None:
    program = onnxexp.export(
        lambda x: x * torch.hann_window(40) + torch.linspace(0, 1, 40), (torch.rand(2, 40),), capture="export"
    )
    assert [node.op_type for node in program.model.graph] == ["Mul", "Add"]
