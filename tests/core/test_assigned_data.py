"""Assignments to ``.data`` of parameters in a forward."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp import CaptureError


class Merged(torch.nn.Module):
    """A layer whose weight is computed from those of two others at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.merged = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3), torch.nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.merged.weight.data = (self.second.weight @ self.first.weight).contiguous()
        self.merged.bias.data = self.second.bias.data + self.second.weight.data @ self.first.bias.data
        return self.merged(x) * self.merged.weight.shape[1]


class OfInput(Merged):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.merged.weight.data = x[:, :1] * self.merged.weight.data[:1]
        return torch.cat([x @ self.merged.weight.T, self.merged.weight.data.T[:1]]), self.merged.weight


class Swapped(Merged):
    """Weights that are put back at the end, as an average of weights is."""

    def forward(self, x: Tensor) -> Tensor:
        before = self.merged.weight.data
        self.merged.weight.data = before * 2
        y = self.merged(x)
        self.merged.weight.data = before
        return y + self.merged(x)


class Shared(Merged):
    """A write into the assigned tensor, which is the parameter's data from then on."""

    def forward(self, x: Tensor) -> Tensor:
        weight = x.new_ones(3, 4)
        self.merged.weight.data = weight
        weight.mul_(3)
        self.merged.weight.data.add_(1)
        return self.merged(x) + weight.sum()


CASES = [(Merged, False), (OfInput, True), (Swapped, False), (Shared, False)]


class Cast(Merged):
    def forward(self, x: Tensor) -> Tensor:
        return self.merged.to(torch.float64)(x.double())


@pytest.mark.parametrize(
    ("model", "keeps", "capture"),
    [
        *((model, keeps, capture) for model, keeps in CASES for capture in ("export", "trace")),
        (Cast, False, "trace"),  # torch.export refuses Module.to
    ],
)
def test_assigned_data(model: type[Merged], keeps: bool, capture: str) -> None:
    module, x = model().eval(), torch.randn(3, 4)
    before = copy.deepcopy(module)
    warned = pytest.warns(UserWarning, match=r"keeps what it assigns to .data .*test_assigned_data.py")
    with warned if keeps else contextlib.nullcontext():
        program = onnxexp.export(module, (x,), capture=capture, dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(dict(module.state_dict()), dict(before.state_dict()), rtol=0, atol=0)
    for rows in (1, 3, 6):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x), copy.deepcopy(before)(x))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_data_of_an_input_is_refused(capture: str) -> None:
    def model(x: Tensor) -> Tensor:
        x.data = x * 2
        return x

    with pytest.raises(CaptureError, match=r"assignment to .data cannot be captured|use the other tensor under its own name"):
        onnxexp.export(model, (torch.randn(3),), capture=capture)


class InBranch(Merged):
    def forward(self, x: Tensor) -> Tensor:
        self.merged.weight.data = self.merged.weight * 2
        return torch.cond(x.sum() > 0, lambda x: self.merged(x), lambda x: x[:, :3] * 1, (x,))


def test_a_branch_after_it_is_refused() -> None:
    with pytest.raises(
        CaptureError, match=r"assignment to .data before a branch cannot be captured|use the other tensor under its own name"
    ):
        onnxexp.export(InBranch(), (torch.randn(3, 4),), capture="export")


class OfScripted(Merged):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(torch.nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.part.weight.data = self.merged.weight * 2
        return self.part(x)


def test_that_of_a_scripted_part_is_refused_and_undone() -> None:
    model = OfScripted()
    before = model.part.weight.detach().clone()
    with pytest.raises(CaptureError, match="of a scripted part's parameter cannot be captured"):
        onnxexp.export(model, (torch.randn(2, 4),), capture="trace")
    assert torch.equal(model.part.weight, before)


def test_custom_functions_get_the_assigned_tensor() -> None:
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, weight, x):
            return x @ weight.T

    class Model(Merged):
        def forward(self, x: Tensor) -> Tensor:
            self.merged.weight.data = self.merged.weight * 3
            return Times.apply(self.merged.weight, x) + torch.ops.aten.sum.default(self.merged.weight)

    model, x = Model(), torch.randn(2, 4)
    for capture in ("export", "trace"):
        program = onnxexp.export(copy.deepcopy(model), (x,), capture=capture)
        torch.testing.assert_close(program(x), copy.deepcopy(model)(x))
