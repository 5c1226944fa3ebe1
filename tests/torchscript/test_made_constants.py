"""Tensors that a forward makes of sizes, or of Python's or NumPy's data."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch
from torch import Tensor, nn

from .running import exported

X = torch.tensor([1.0, 5.0])


def made(x: Tensor) -> Tensor:
    t = torch.tensor([4, 2])
    t.mul_(2)
    return t + x


def made_of_array(x: Tensor) -> Tensor:
    t = torch.from_numpy(numpy.array([4.0, 2.0], dtype="float32"))
    t[0] = 7
    return t * torch.as_tensor([1.0, 3.0]).add_(x.sum())


def made_like(x: Tensor) -> Tensor:
    t = x.new_tensor([[4, 2], [1, 3]])
    t[0].copy_(x)
    return t.relu_() + torch.tensor(3).add_(2)


def kept(x: Tensor) -> Tensor:
    return torch.as_tensor(x).add_(1) * torch.asarray(x) + torch.tensor(2.0)


@pytest.mark.parametrize("model", [made, made_of_array, made_like, kept])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
def test_a_constant_is_as_it_was_made(model: Callable[[Tensor], Tensor], dynamic: object) -> None:
    program = exported(model, (X.clone(),), capture="trace", dynamic_shapes=dynamic if model is kept else None)
    for x in (X, X * 2):
        torch.testing.assert_close(program(x.clone()), model(x.clone()))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.tensor([x.shape[0], 2]) + x.sum().long(),
        lambda x: torch.tensor([[x.shape[0], x.shape[1]], [1, x.numel()]], dtype=torch.float32) / x.shape[0],
        lambda x: torch.as_tensor((x.shape[1] / 2, 1.5)) * x.sum(),
        lambda x: x.new_tensor(x.shape) + x.sum(),
        lambda x: torch.tensor([x.shape[0] > 2, True]) & (x.sum() > 0),
        lambda x: torch.tensor(x.shape[-2:]).tolist()[0] + x if x.dim() > 3 else torch.tensor([x.size(0) // 2] * 2),
    ],
)
def test_sizes_in_a_list_stay_sizes(model: Callable[[Tensor], Tensor]) -> None:
    program = exported(model, (torch.ones(3, 4),), capture="trace", dynamic_shapes=({0: "rows", 1: "columns"},))
    for shape in [(3, 4), (2, 7), (1, 1), (5, 2)]:
        x = torch.ones(shape)
        torch.testing.assert_close(program(x), model(x))


class OtherName(nn.Module):
    def __init__(s) -> None:
        super().__init__()
        s.fc = nn.Linear(2, 2)

    def forward(s, x: Tensor) -> Tensor:
        return s.fc(x) + 1


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_the_first_parameter_may_have_any_name(capture: str) -> None:
    model = OtherName()
    program = exported(model, (X,), capture=capture)
    torch.testing.assert_close(program(X), model(X).detach())
