"""Sizes that depend on values, and tensors that broadcast with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onnxexp

ONE, ALL = torch.tensor([1.0, -1, -3]), torch.tensor([4.0, 1, 3])
"""Examples with one and with three positive elements."""


def written(x: Tensor) -> Tensor:
    y = x + 0
    y[:] = x[x > 0]
    return y * 2


BROADCAST: dict[str, Callable[[Tensor], Any]] = {
    "a function of two tensors": lambda x: torch.arange(3.0) + x[x > 0],
    "a comparison with more elements": lambda x: torch.kron(x[:1], x) < x[x > 0],
    "a function of three tensors": lambda x: torch.addcmul(x, x, x[x > 0]),
    "a larger rank": lambda x: torch.maximum(x[None].expand(2, 3), x[x > 0]).view(6),
    "a mask": lambda x: x.masked_fill(x[x > 0] > 0, 1.0),
    "a choice": lambda x: torch.where(x > 0, x, x[x > 0]),
    "a matrix product": lambda x: x[x > 0][:, None, None] @ x[:, None, None],
    "expand": lambda x: x[x > 0].expand(2, 3),
    "copy_": lambda x: (x + 0).copy_(x[x > 0]) + 1,
    "add_": lambda x: (x + 0).add_(x[x > 0]).mul_(2),
    "a write": written,
}


@pytest.mark.parametrize("example", [ONE, ALL], ids=["one", "all"])
@pytest.mark.parametrize("name", BROADCAST)
def test_an_unknown_size_may_be_one_or_that_of_the_other_tensor(name: str, example: Tensor) -> None:
    model = BROADCAST[name]
    program = onnxexp.export(model, (example,), capture="export")
    for x in (ONE, ALL):
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("name", ["a choice", "a matrix product", "copy_", "add_", "a write"])
def test_an_unknown_size_may_be_one_or_that_of_a_dynamic_axis(name: str) -> None:
    model = BROADCAST[name]
    program = onnxexp.export(model, (ONE,), capture="export", dynamic_shapes=({0: "n"},))
    for x in (ONE, ALL, torch.tensor([-1.0, 2, -3, -4]), torch.ones(5)):
        torch.testing.assert_close(program(x), model(x))


def test_a_kernel_of_torch_that_assumes_a_size() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.baddbmm(x[x > 0][:, None, None], x[:, None, None], x[:, None, None])

    with pytest.raises(onnxexp.CaptureError, match="assumes .*3 of a size that depends on values"):
        onnxexp.export(model, (ONE,), capture="export")
    with pytest.warns(UserWarning, match="assumes .*3 of a size that depends on values"):
        traced = onnxexp.export(model, (ONE,))
    exported = onnxexp.export(model, (ALL,), capture="export")
    torch.testing.assert_close(exported(ALL), model(ALL))
    for x in (ONE, ALL):
        torch.testing.assert_close(traced(x), model(x))


def attended(x: Tensor) -> Tensor:
    tokens = torch.stack([x[x > 0], x[x > 0] * 2], 1)[None]
    return F.scaled_dot_product_attention(tokens, tokens, tokens * 3)


class Encoder(nn.Module):
    """Attention among the tokens that a mask selects."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.stack([x[x > 0] * each for each in range(4)], 1)[None])


COMPARED_WITH_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "diff": lambda x: x[x > 0].diff(),
    "diff of joined tensors": lambda x: torch.diff(x[x > 0], n=2, prepend=x[:1], append=x[x > 0].to(torch.float64)),
    "trapezoid": lambda x: torch.trapezoid(x[x > 0], dx=2),
    "trapz of integers": lambda x: torch.trapz(x[x > 0].long()[None], x[x > 0] * 2, dim=1),
    "cdist": lambda x: torch.cdist(x[x > 0][:, None], x[None, :, None]),
    "fft": lambda x: torch.fft.fft(x[x > 0]).real,
    "ifft of a length": lambda x: torch.fft.ifft(x[x > 0], n=5).imag,
    "rfft": lambda x: torch.fft.rfft(x[x > 0].double()).abs(),
    "irfft": lambda x: torch.fft.irfft(x[x > 0].repeat(2)),
    "irfft of a length": lambda x: torch.fft.irfft(x[x > 0], n=6, norm="ortho"),
    "hfft": lambda x: torch.fft.hfft(x[x > 0].repeat(2)),
    "ihfft": lambda x: torch.fft.ihfft(x[x > 0]).real,
    "attention": attended,
    "a layer with attention": Encoder(),
}


@pytest.mark.parametrize("name", COMPARED_WITH_NUMBERS)
def test_a_size_that_torch_compares_with_0_or_1_may_depend_on_values(name: str) -> None:
    model = COMPARED_WITH_NUMBERS[name]
    program = onnxexp.export(model, (torch.tensor([1.0, -1, 2, 3]),), capture="export", dynamic_shapes=({0: "n"},))
    for x in (ONE, ALL, torch.tensor([-1.0, 2, -3, 4, 5, 6, 7])):
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def squeezed_in_place(x: Tensor) -> Tensor:
    y = torch.unique(x)[None, :, None]
    y.squeeze_()
    return y + 1


def squeezed_axis_in_place(x: Tensor) -> Tensor:
    return torch.unique(x)[:, None].squeeze_(1) * 2


@pytest.mark.parametrize("model", [squeezed_in_place, squeezed_axis_in_place])
@pytest.mark.filterwarnings("ignore:the exported model is right only where")
def test_squeeze_in_place(model: Callable[[Tensor], Tensor]) -> None:
    program = onnxexp.export(model, (torch.tensor([1.0, 2, 2]),), capture="export")
    for x in (torch.tensor([3.0, 1, 2]), torch.tensor([2.0, 1, 2])):
        torch.testing.assert_close(program(x), model(x))


def test_squeeze_in_place_states_that_it_keeps_the_axis() -> None:
    with pytest.warns(UserWarning, match="right only where .* != 1"):
        onnxexp.export(squeezed_in_place, (torch.tensor([1.0, 2, 2]),), capture="export")
    with pytest.raises(onnxexp.CaptureError, match="has one element in the example"):
        onnxexp.export(squeezed_in_place, (torch.ones(3),), capture="export")


@pytest.mark.filterwarnings("ignore")  # eager advises against masks of bytes
def test_a_mask_of_bytes() -> None:
    def model(x: Tensor) -> Tensor:
        return x[x % x.shape[0]] + 1

    x = torch.tensor([[0, 1], [2, 0], [0, 0]], dtype=torch.uint8)
    for capture in ("export", "trace"):
        program = onnxexp.export(model, (x,), capture=capture)
        for given in (x, x + 1, x * 0):
            assert torch.equal(program(given), model(given))
