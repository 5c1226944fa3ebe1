"""nn/transformer_layer.py: fused layers match the graph and numbers of modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(2, 5, 16)
PADDING = torch.zeros(2, 5, dtype=torch.bool)
PADDING[0, 3:] = True
OPSETS = (13, 18, 23)


class Fused(nn.Module):
    """An encoder layer by torch's fused operator."""

    def __init__(self, mask_type: int | None = None, **options: Any) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options).eval()
        self.mask_type = mask_type

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        layer, attention = self.layer, self.layer.self_attn
        return torch._transformer_encoder_layer_fwd(
            x,
            16,
            2,
            attention.in_proj_weight,
            attention.in_proj_bias,
            attention.out_proj.weight,
            attention.out_proj.bias,
            layer.activation is nn.functional.gelu,
            layer.norm_first,
            layer.norm1.eps,
            layer.norm1.weight,
            layer.norm1.bias,
            layer.norm2.weight,
            layer.norm2.bias,
            layer.linear1.weight,
            layer.linear1.bias,
            layer.linear2.weight,
            layer.linear2.bias,
            mask,
            self.mask_type,
        )


class FusedAttention(nn.Module):
    """torch's fused attention, with the weights of the heads."""

    def __init__(self, average: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.average = average

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights = self.attention
        output, scores = torch._native_multi_head_attention(
            x,
            x,
            x,
            16,
            2,
            weights.in_proj_weight,
            weights.in_proj_bias,
            weights.out_proj.weight,
            weights.out_proj.bias,
            None,
            True,
            self.average,
        )
        return output, scores


def case(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> Case:
    return Case(model, *inputs, **{"opsets": OPSETS, "rtol": 1e-4, "atol": 1e-5, **options})


@cases(
    case(Fused(), X, dynamic={0: [0, 1]}, name="fused"),
    case(Fused(norm_first=True, activation=nn.functional.gelu), X, dynamic={0: [0, 1]}, name="fused_norm_first"),
    case(Fused(mask_type=1), X, PADDING, name="fused_padding"),
    case(Fused(mask_type=0), X, torch.ones(5, 5).triu(1) > 0, name="fused_causal"),
    case(FusedAttention(average=True), X, name="fused_attention"),
    case(FusedAttention(average=False), X, name="fused_attention_heads"),
)
def test_fused(check):
    check()


@cases(
    case(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), X, dynamic={0: [0, 1]}, name="layer"),
    case(nn.TransformerEncoderLayer(16, 2, 32).eval(), X, dynamic={0: [0, 1]}, name="sequence_first"),
    case(
        nn.TransformerDecoderLayer(16, 2, 32, batch_first=True).eval(),
        X,
        torch.randn(2, 3, 16),
        dynamic={0: [1], 1: [1]},
        name="decoder",
    ),
    case(nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval(), X, torch.randn(2, 3, 16), name="both"),
)
def test_modules(check):
    check()


@pytest.mark.parametrize("opset", OPSETS)
def test_no_grad_gives_the_same_file(opset: int) -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    plain = onnxexp.export(model, (X,), opset_version=opset)
    with torch.no_grad():
        without = onnxexp.export(model, (X,), opset_version=opset)
    with torch.inference_mode():
        inference = onnxexp.export(model, (X,), opset_version=opset)
    assert plain.model_proto.SerializeToString() == without.model_proto.SerializeToString()
    assert plain.model_proto.SerializeToString() == inference.model_proto.SerializeToString()


def test_one_attention_node() -> None:
    """No views remain around a layer's attention where ONNX has it as one operator."""
    program = onnxexp.export(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), (X,), opset_version=23)
    expected = "MatMul Add Split Attention MatMul Add Add LayerNormalization MatMul Add Relu MatMul Add Add LayerNormalization"
    assert [node.op_type for node in program.model.graph] == expected.split()
