"""Small models for the tests of `export`, and short ways to read a program."""

from __future__ import annotations

from typing import Any

import onnx
import torch
from torch import nn

X = torch.randn(2, 3)
Y = torch.randn(2, 3)


class Affine(nn.Module):
    """One parameter, one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("shift", torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight + self.shift)


class Two(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + y


def names(program: Any) -> tuple[list[str], list[str]]:
    graph = program.model.graph
    return [value.name for value in graph.inputs], [value.name for value in graph.outputs]


def kinds(program: Any) -> list[str]:
    return [node.op_type for node in program.model.graph]


def shape(program: Any, name: str) -> list[Any]:
    value = next(value for value in (*program.model.graph.inputs, *program.model.graph.outputs) if value.name == name)
    return [size if isinstance(size, int) else size.value for size in value.shape]


def valid(program: Any) -> Any:
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected)


def without_context(error: BaseException | None) -> bool:
    """Return whether a model's error shows no earlier attempt to capture the model."""
    return error is not None and error.__context__ is None and error.__cause__ is None
