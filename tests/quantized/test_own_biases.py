"""Products with weights that ONNX Runtime would quantize on its own."""

from __future__ import annotations

import copy

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_quantized import Quantized


class FloatWeights(nn.Module):
    """A layer whose input and result alone are quantized."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = copy.deepcopy(layer)
        with torch.no_grad():
            self.layer.weight[1] *= 100  # with one scale for all channels, the other channels are zeros

    def forward(self, x: Tensor) -> Tensor:
        x = torch.quantize_per_tensor(x, 0.05, 60, torch.quint8).dequantize()
        return torch.quantize_per_tensor(torch.relu(self.layer(x)), 0.01, 0, torch.quint8).dequantize()


LAYERS = [
    nn.Conv2d(4, 6, 3),
    nn.Conv2d(4, 6, 3, groups=2, bias=False),
    nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False),
    nn.Linear(5, 6),
    nn.Linear(5, 6, bias=False),
]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("opset", [*(pytest.param(opset, marks=pytest.mark.full) for opset in (10, 12)), 17])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_float_weights_stay_float(layer: nn.Module, opset: int) -> None:
    torch.manual_seed(0)
    model = FloatWeights(layer).eval()
    program = onnxexp.export(model, (torch.randn(2, 4, 5, 5),), capture="trace", opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    x = torch.randn(2, 4, 5, 5)
    assert (program(x) - model(x)).abs().max() <= 0.0101


class HalfOfAWeight(nn.Module):
    """A layer that uses a part of a quantized weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.quantize_per_tensor(torch.randn(4, 12), 0.02, 0, torch.qint8)
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.quantize_per_tensor(x, 0.05, 60, torch.quint8).dequantize()
        x = torch.addmm(self.bias, x, self.weight.dequantize()[:, 6:])
        return torch.quantize_per_tensor(x, 0.1, 70, torch.quint8).dequantize()


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("opset", [10, 17])
def test_a_part_of_a_weight(opset: int) -> None:
    torch.manual_seed(0)
    model, x = HalfOfAWeight().eval(), torch.randn(3, 4)
    program = onnxexp.export(model, (x,), capture="trace", opset_version=opset)
    assert (program(x) - model(x)).abs().max() <= 0.101


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("style", ["qdq", *(pytest.param(style, marks=pytest.mark.full) for style in ("qoperator", "ort"))])
def test_styles_at_opset_10(style: str) -> None:
    torch.manual_seed(0)
    weight = torch.quantize_per_tensor(torch.randn(6, 4, 3, 3), 0.02, 0, torch.qint8)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.packed = torch.ops.quantized.conv2d_prepack(weight, torch.randn(6), [1, 1], [0, 0], [1, 1], 1)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.quantize_per_tensor(x, 0.05, 60, torch.quint8)
            return torch.ops.quantized.conv2d(x, self.packed, 0.1, 70).dequantize()

    model, x = Layer(), torch.randn(2, 4, 5, 5)
    plugins = ["aten", "torchscript", Quantized(style=style)]
    program = onnxexp.export(model, (x,), capture="trace", opset_version=10, plugins=plugins)
    assert (program(x) - model(x)).abs().max() <= 0.101
