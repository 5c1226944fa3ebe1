# ruff: noqa: UP006 - TorchScript reads this file, and not all of today's Python
"""Modules that write their state: the file has the values from before the export."""

from __future__ import annotations

import copy
from typing import Dict, List  # noqa: UP035 - TorchScript reads these

import pytest
import torch
from torch import Tensor, nn

import onnxexp


class OwnWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.linear.weight = self.linear.weight * 2
        return self.linear(x)


class OwnWeightInABranch(OwnWeight):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            self.linear.weight = torch.ones(3, 3)
        return self.linear(x)


class OwnTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        self.held = self.held + x[0]
        return self.held + x


class OwnList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held: List[Tensor] = [torch.zeros(3)]

    def forward(self, x: Tensor) -> Tensor:
        self.held.append(x[0])
        self.held[0].add_(x[1])
        return torch.stack(self.held)


class OwnDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held: Dict[str, Tensor] = {"a": torch.zeros(3)}

    def forward(self, x: Tensor) -> Tensor:
        self.held["a"] = self.held["a"] + x[0]
        return x + self.held["a"]


class OwnNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.counts: List[int] = [1, 2]

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.counts[0] = self.counts[0] + 1
        return x * self.count + self.counts[0]


@pytest.mark.filterwarnings("ignore:the forward writes into")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", [OwnWeight, OwnWeightInABranch, OwnTensor, OwnList, OwnDict, OwnNumbers])
def test_a_scripted_module_that_writes_its_attributes(kind, dynamic) -> None:
    model, x = torch.jit.script(kind()), torch.rand(2, 3)
    expected = copy.deepcopy(model)(x)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "n"},) if dynamic else None)
    torch.testing.assert_close(program(x), expected)
    program.verify()
    program.verify()
    torch.testing.assert_close(copy.deepcopy(model)(x), expected)


class Restrided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.held.t_().unsqueeze_(0)
        return self.held.mT + x


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_a_module_that_changes_the_shape_of_its_buffer(capture) -> None:
    model, x = Restrided(), torch.rand(2, 3)
    program = onnxexp.export(model, (x,), capture=capture)
    assert model.held.shape == (2, 3) and model.held.is_contiguous()
    torch.testing.assert_close(program(x), Restrided()(x))


class Halved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.linear.weight.mul_(0.5)
            self.linear.bias[1:].zero_()
        return self.linear(x)


class HalvedByData(Halved):
    def forward(self, x: Tensor) -> Tensor:
        self.linear.weight.data.mul_(0.5)
        self.linear.bias.detach()[1:].zero_()
        return self.linear(x)


@pytest.mark.filterwarnings("ignore:the forward writes into")
@pytest.mark.parametrize("rows", [2, 1])
@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("kind", [Halved, HalvedByData])
def test_a_parameter_written_in_place(kind, capture, rows) -> None:
    model, x = kind(), torch.randn(rows, 3)
    before = copy.deepcopy(model.state_dict())
    expected = copy.deepcopy(model)(x)
    program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(x), expected)
    program.verify()
    program.verify()
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


class Renormed(nn.Module):
    """A convolution whose weight the forward writes into."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 5, 2)
        self.conv.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        self.conv.weight.mul_(0.5)
        return torch.relu(self.conv(x))[:, None] + 1


@pytest.mark.filterwarnings("ignore")
def test_a_traced_convolution_with_a_written_weight() -> None:
    model = Renormed(torch.randn(5, 3, 2))
    before = model.conv.weight.detach().clone()
    program = onnxexp.export(model, (torch.randn(2, 3, 4),), capture="trace", dynamic_shapes=({0: "batch", 2: "length"},))
    assert torch.equal(model.conv.weight, before)
    x = torch.randn(3, 3, 6)
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x))


def test_a_written_parameter_of_other_memory_is_an_error() -> None:
    model = Renormed(torch.from_numpy(torch.randn(5, 3, 2).numpy()))
    with pytest.raises(onnxexp.CaptureError, match="writes into conv.weight while it is traced"):
        onnxexp.export(model, (torch.randn(2, 3, 4),), capture="trace")


class ByAddress(nn.Module):
    """Looks a parameter up by its address, as quantizers of weights do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = {self.weight.data_ptr(): torch.tensor([1.0, 2.0, 3.0])}

    def forward(self, x: Tensor) -> Tensor:
        return x * self.table[self.weight.data_ptr()]


class ViewByAddress(ByAddress):
    """Looks a view of a parameter up, which an object outside of the modules refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.others = [lambda: weight[slice(None)]]
        weight = self.weight

    def forward(self, x: Tensor) -> Tensor:
        return x * self.table[self.others[0]().data_ptr()] * self.table[self.weight[:2].data_ptr()]


@pytest.mark.parametrize("make", [ByAddress, ViewByAddress])
@pytest.mark.parametrize("capture", ["trace", "auto"])
def test_a_parameter_is_found_by_its_address(capture: str, make: type[ByAddress]) -> None:
    model, x = make(), torch.randn(2, 3)
    program = onnxexp.export(model, (x,), capture=capture)
    torch.testing.assert_close(program(x), model(x))
    assert model.weight.data_ptr() in model.table
