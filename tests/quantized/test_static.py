"""Statically quantized models, from eager mode."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional

import onnxexp


class Residual(nn.Module):
    """Convolutions with a residual sum, pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.relu, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)
        self.sum, self.linear = FloatFunctional(), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(self.quant(x)))
        x = nn.functional.max_pool2d(self.sum.add(x, self.second(x)), 2)
        return self.dequant(self.linear(x.mean([2, 3])))


def quantized(model: nn.Module, *example: Tensor, fuse: list[list[str]], backend: str = "fbgemm") -> nn.Module:
    """Quantize a float model statically, calibrated on the example."""
    model.eval().qconfig = quantization.get_default_qconfig(backend)
    prepared = quantization.prepare(quantization.fuse_modules(model, fuse) if fuse else model)
    prepared(*example)
    return quantization.convert(prepared)


def codes(result: Tensor, scale: float) -> Tensor:
    return torch.round(result / scale)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [13, 20])
def test_a_convolutional_network(capture: str, opset: int) -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 3, 8, 8)
    model = quantized(Residual(), example, fuse=[["first", "relu"]])
    before = model.state_dict().keys()
    program = onnxexp.export(model, (example,), capture=capture, opset_version=opset, dynamic_shapes=({0: "batch", 2: "height"},))
    assert model.state_dict().keys() == before
    onnx.checker.check_model(program.model_proto, full_check=True)
    for sizes in [(2, 3, 8, 8), (1, 3, 6, 8), (5, 3, 33, 8)]:
        x = torch.randn(sizes)
        assert (codes(program(x), model.linear.scale) - codes(model(x), model.linear.scale)).abs().max() <= 1
    weights = {initializer.name: initializer.data_type for initializer in program.model_proto.graph.initializer}
    assert {weights[f"{name}.weight"] for name in ("first", "second", "linear")} == {onnx.TensorProto.INT8}
