"""passes/fold_batch_norm.py: a BatchNormalization folded into the convolution."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import nn

import onnxexp


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


def trained(model: nn.Module, *shape: int) -> nn.Module:
    """Train running statistics on random data, and return the model in eval mode."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        model(torch.randn(*shape, generator=generator) * 3 + 1)
    return model.eval()


def test_batch_norm_is_folded_into_the_convolution_before_it(tmp_path: Path) -> None:
    layers = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 6, 3, bias=False), nn.BatchNorm2d(6))
    model = trained(nn.Sequential(*layers), 4, 3, 8, 8)
    program = onnxexp.export(model, (torch.randn(2, 3, 8, 8),), tmp_path / "model.onnx")
    assert operators(program) == ["Conv", "Relu", "ConvTranspose"]
    assert program.verify().ok
    assert onnx.load(tmp_path / "model.onnx") == program.model_proto


def test_batch_norm_stays_where_it_cannot_be_folded() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return self.norm(y) + y

    program = onnxexp.export(trained(Twice(), 4, 3, 8, 8), (torch.randn(2, 3, 8, 8),))
    assert "BatchNormalization" in operators(program)
    assert program.verify().ok


def test_batch_norm_stays_without_constant_folding() -> None:
    model = trained(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), 4, 3, 8, 8)
    program = onnxexp.export(model, (torch.randn(2, 3, 8, 8),), do_constant_folding=False)
    assert operators(program) == ["Conv", "BatchNormalization"]
