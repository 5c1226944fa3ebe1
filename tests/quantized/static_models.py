"""Small float models to quantize statically, and the flows that quantize them."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import quantize_fx


class Linear(nn.Module):
    """Two linear layers, the first with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.relu, self.second = nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.dequant(self.second(self.relu(self.first(self.quant(x)))))


class Residual(nn.Module):
    """Convolutions with a residual sum, pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.relu, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.sum, self.pool, self.linear = (
            nn.BatchNorm2d(8),
            FloatFunctional(),
            nn.AdaptiveAvgPool2d(1),
            nn.Linear(8, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(self.quant(x)))
        x = nn.functional.max_pool2d(self.sum.add_relu(x, self.norm(self.second(x))), 2)
        return self.dequant(self.linear(torch.flatten(self.pool(x), 1)))


class Transformer(nn.Module):
    """A block of self-attention and a feed-forward layer; the softmax is in float."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant, self.weights = quantization.QuantStub(), quantization.DeQuantStub(), quantization.QuantStub()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.first, self.relu, self.second = nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.scores, self.mixed, self.sum, self.sum_2 = (FloatFunctional() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self.quant(x))
        query, key, value = (
            layer(x).reshape(x.size(0), x.size(1), 2, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = self.dequant(self.scores.mul_scalar(self.scores.matmul(query, key.transpose(2, 3)), 8**-0.5))
        mixed = self.mixed.matmul(self.weights(torch.softmax(scores, -1)), value)
        x = self.sum.add(x, self.out(mixed.transpose(1, 2).reshape(x.size(0), x.size(1), 16)))
        return self.dequant(self.after(self.sum_2.add(x, self.second(self.relu(self.first(x))))))


def eager(model: nn.Module, *example: Tensor, engine: str = "fbgemm") -> nn.Module:
    """Quantize by eager mode; layers with an activation are fused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = copy.deepcopy(model).eval()
        groups = [["first", "relu"], *([["second", "norm"]] if "norm" in dict(model.named_children()) else [])]
        model = quantization.fuse_modules(model, groups)
        model.qconfig = quantization.get_default_qconfig(engine)
        prepared = quantization.prepare(model)
        prepared(*example)
        return quantization.convert(prepared)


def fx(model: nn.Module, *example: Tensor, engine: str = "fbgemm") -> nn.Module:
    """Quantize by torch.fx."""
    return quantize_fx.convert_fx(_prepared_fx(model, example, engine))


def reference(model: nn.Module, *example: Tensor, engine: str = "fbgemm") -> nn.Module:
    """Quantize by torch.fx, to a model that computes in float between quantizers."""
    return quantize_fx.convert_to_reference_fx(_prepared_fx(model, example, engine))


def _prepared_fx(model: nn.Module, example: tuple[Tensor, ...], engine: str) -> nn.Module:
    prepared = quantize_fx.prepare_fx(
        _without_stubs(model).eval(), quantization.get_default_qconfig_mapping(engine), example_inputs=example
    )
    prepared(*example)
    return prepared


def _without_stubs(model: nn.Module) -> nn.Module:
    """Copy a model without stubs, since torch.fx finds the places itself."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_children()):
        if isinstance(module, (quantization.QuantStub, quantization.DeQuantStub)):
            setattr(model, name, nn.Identity())
    return model


def quantum(model: nn.Module, *example: Tensor) -> float:
    """Return the smallest step between two outputs: one of the last quantizer's."""
    values = torch.unique(model(*example))
    return float((values[1:] - values[:-1]).min())
