"""`torch.cond` in a trace: both branches, and a choice between their results."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from onnxexp import CaptureError, export

X = torch.randn(4, 5).abs()


class Chosen(nn.Module):
    """Nested results, a parameter, and a branch inside of a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def positive(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        inner = torch.cond(x.max() > 2, lambda x: x * 2, lambda x: x / 2, (x,))
        return inner, [self.linear(x)]

    def forward(self, x: Tensor) -> Tensor:
        one, (other,) = torch.cond(x.sum() > 0, self.positive, lambda x: (x - 1, [x + 3]), (x,))
        return one + other


@pytest.mark.parametrize("ran_before", [False, True])
def test_both_branches_are_recorded(ran_before: bool) -> None:
    model = Chosen().eval()
    if ran_before:
        model(X)
    program = export(model, (X,), capture="trace", dynamic_shapes=({0: "n"},))
    for x in (X, -X, X[:1], torch.full((7, 5), 3.0)):
        torch.testing.assert_close(program(x), model(x))


def test_a_constant_condition_takes_one_branch() -> None:
    program = export(lambda x: torch.cond(x.dim() == 2, torch.sin, torch.cos, (x,)), (X,), capture="trace")
    assert [node.op_type for node in program.model.graph] == ["Sin"]


def test_a_loop_of_torch_names_the_other_capture() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]

    with pytest.raises(CaptureError, match='to fix this, use capture="export"'):
        export(model, (X,), capture="trace")
    torch.testing.assert_close(export(model, (X,), capture="export")(X), X * 8)
