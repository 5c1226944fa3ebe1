# ruff: noqa: UP006 - TorchScript reads this file, and not all of today's Python
"""Lists that a loop extends by ``+=``, as by ``append``."""

from __future__ import annotations

from typing import List, Tuple  # noqa: UP035 - TorchScript reads these

import torch
from torch import Tensor, nn

from .running import ALL, SEQUENCES, Program, programs

X, ONE = torch.arange(24.0).reshape(2, 4, 3) / 7, torch.ones(3, 1, 3)
AT = [(torch.arange(45.0).reshape(3, 5, 3) / 9,), (ONE,)]
STEPS = [{0, 1}]


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 2)
        self.linear = nn.Linear(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        h, c = torch.zeros(x.size(0), 2), torch.zeros(x.size(0), 2)
        for step in x.split(1, dim=1):
            h, c = self.cell(step[:, 0], (h, c))
            outs += [self.linear(h)]
        return torch.cat(outs, dim=1)


def by_index(x: Tensor) -> Tensor:
    outs: List[Tensor] = [x[:, 0]]
    for i in range(x.size(1)):
        outs += [x[:, i] * i]
    return torch.stack(outs)


def two_at_once(x: Tensor) -> Tensor:
    outs: List[Tensor] = []
    for step in x.unbind(1):
        outs += [step, step * 2]
        outs += [step * 3]
    return torch.cat(outs, 1)


def two_lists(x: Tensor) -> Tuple[Tensor, Tensor]:
    ones: List[Tensor] = []
    others: List[Tensor] = []
    total = x[:, 0]
    for step in x.unbind(1):
        total = total + step
        ones += [total]
        others.append(step)
    return torch.stack(ones), torch.cat(others)


def sometimes(x: Tensor) -> Tensor:
    outs: List[Tensor] = [x[:, 0]]
    for step in x.unbind(1):
        if step.sum() > 3:
            outs += [step]
    return torch.stack(outs)


@programs(
    *(Program(fn, X, at=AT, dynamic=STEPS, holds=["Loop"], opsets=ALL) for fn in (by_index, two_at_once, two_lists)),
    Program(Cells(), X, at=AT, dynamic=STEPS),
    Program(sometimes, X, at=AT, dynamic=STEPS, opsets=SEQUENCES),
)
def test_lists_that_a_loop_extends(run) -> None:
    run()
