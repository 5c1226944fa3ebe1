"""Residual additions before a LayerNormalization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnxexp


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x.relu() + y)


class Kept(Block):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        z = x.relu() + y
        return self.norm(z), z.exp()


X = torch.randn(2, 3, 8)
SHAPES = ({0: "batch", 1: "time"},) * 2


def operators(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> list[str]:
    program = onnxexp.export(model, inputs, **options)
    program.verify()
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("shapes", [None, SHAPES])
def test_an_add_that_only_the_norm_reads_is_a_sum(shapes: Any) -> None:
    assert operators(Block(), X, X + 1, dynamic_shapes=shapes) == ["Relu", "Sum", "LayerNormalization"]


@pytest.mark.parametrize(
    ("model", "inputs", "options"),
    [
        (Kept(), (X, X), {}),
        (Block(), (X, X[:1]), {}),
        (Block(), (X[0], X[0]), {}),
        (Block().double(), (X.double(), X.double()), {}),
        (Block(), (X, X), {"skip_passes": ["residual-sum"]}),
        (Block(), (X, X), {"skip_passes": ["aten/residual-sum"]}),
    ],
    ids=["another reader", "broadcast", "rank 2", "float64", "skipped", "skipped by its whole name"],
)
def test_any_other_add_stays(model: nn.Module, inputs: Any, options: Any) -> None:
    assert "Add" in operators(model, *inputs, **options)
