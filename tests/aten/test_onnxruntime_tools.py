"""Tools of ONNX Runtime that read exported files: its symbolic shape inference, which comes before quantization."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnxexp

pytest.importorskip("onnxruntime")


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


class MaskedAttention(nn.Module):
    """Rows without any key are zeroed, as in GPT-2 with padding on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        heads = self.linear(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask[:, None, None] > 0).transpose(1, 2).flatten(2)


class GroupedAttention(nn.Module):
    """Two keys for four queries, as in Llama, and a mask of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 16), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key = self.query(x).unflatten(-1, (4, 4)).transpose(1, 2), self.key(x).unflatten(-1, (2, 4)).transpose(1, 2)
        found = F.scaled_dot_product_attention(query, key, key, attn_mask=mask[:, None, None], enable_gqa=True)
        return found.transpose(1, 2).flatten(2)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTM(4, 8, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.lstm(x)[0])


MASKED = ({0: "batch", 1: "length"}, {0: "batch", 1: "length"})
MODELS = {
    "convolutions": (Convolutions(), (torch.rand(2, 3, 12, 12),), ({0: "batch"},)),
    "attention": (MaskedAttention(), (torch.rand(2, 5, 8), torch.ones(2, 5)), MASKED),
    "grouped attention": (GroupedAttention(), (torch.rand(2, 5, 8), torch.zeros(2, 5)), MASKED),
    "recurrent": (Recurrent(), (torch.rand(5, 2, 4),), ({0: "length", 1: "batch"},)),
}


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_prepared_for_quantization(name: str, opset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxruntime.quantization import shape_inference

    model, args, shapes = MODELS[name]
    onnxexp.export(model.eval(), args, tmp_path / "model.onnx", dynamic_shapes=shapes, opset_version=opset)
    monkeypatch.chdir(tmp_path)  # the tool leaves its weights there
    shape_inference.quant_pre_process(tmp_path / "model.onnx", tmp_path / "prepared.onnx")
    assert (tmp_path / "prepared.onnx").exists()
