"""Quantized benchmark models, each beside the float model that it was made of."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from tests.models.classic_vision import ResNet

from .case import floats

Quantize = Callable[[nn.Module, torch.Tensor], nn.Module]


@dataclass(frozen=True)
class QuantizedCase:
    """A model, and how it is quantized.

    Attributes:
        name: The name in tables.
        build: Creates the float model.
        quantize: Returns the quantized model for a float model and an example.
        shape: The shape of the input, without the batch.
        latency: The largest accepted latency as a share of the float model's; None for no limit.
        size: The largest accepted size of the file, as such a share.
        needs: The package without which the case is left out.
    """

    name: str
    build: Callable[[], nn.Module]
    quantize: Quantize
    shape: tuple[int, ...]
    latency: float | None
    size: float = 0.27
    needs: str = "torch"

    @property
    def possible(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.needs) is not None

    def make(self) -> tuple[nn.Module, nn.Module, torch.Tensor]:
        """Create the float model, the quantized one and an example, the same at each call."""
        torch.manual_seed(0)
        model, example = self.build().eval(), floats(2, *self.shape)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None and module.running_var is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        with torch.no_grad():
            return model, self.quantize(model, example), example


def static(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """Quantize statically through torch.fx, and calibrate with the example."""
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx

    prepared = quantize_fx.prepare_fx(copy.deepcopy(model), get_default_qconfig_mapping("x86"), (example,))
    prepared(example)
    quantized: nn.Module = quantize_fx.convert_fx(prepared)
    return quantized


def dynamic(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """Quantize the weights of linear layers, and their inputs at run time."""
    from torch.ao.quantization import quantize_dynamic

    quantized: nn.Module = quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    return quantized


def groups_of_int4(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """Quantize the weights alone, with 4 bits and a scale for each 128 of a row."""
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    quantized = copy.deepcopy(model)
    quantize_(quantized, IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(128)))
    return quantized


class InvertedResidual(nn.Module):
    """A block of Sandler et al. 2018: expand, filter each channel, project."""

    def __init__(self, entry: int, leave: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = entry * expansion
        self.body = nn.Sequential()
        if expansion > 1:
            self.body.extend([nn.Conv2d(entry, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()])
        self.body.extend([nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()])
        self.body.extend([nn.Conv2d(inner, leave, 1, bias=False), nn.BatchNorm2d(leave)])
        self.residual = stride == 1 and entry == leave

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return x + self.body(x) if self.residual else self.body(x)


class MobileNet(nn.Module):
    """Sandler et al. 2018, MobileNetV2: (batch, 3, height, width) to (batch, classes)."""

    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    """Expansion, channels, blocks and stride of each stage."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
        channels = 32
        for expansion, leave, blocks, stride in self.plan:
            for block in range(blocks):
                self.features.append(InvertedResidual(channels, leave, 1 if block else stride, expansion))
                channels = leave
        self.features.extend([nn.Conv2d(channels, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()])
        self.classifier = nn.Linear(1280, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return class scores."""
        return self.classifier(self.features(image).mean([2, 3]))


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(768, 3072))


_ALL = [
    QuantizedCase("linear, int8", _linear, static, (768,), 0.5),
    QuantizedCase("linear, int8 dynamic", _linear, dynamic, (768,), 0.5),
    QuantizedCase("linear, int4 groups", _linear, groups_of_int4, (768,), 0.5, 0.16, "torchao"),
    QuantizedCase("resnet18, int8", lambda: ResNet((2, 2, 2, 2), False), static, (3, 224, 224), 0.6),
    QuantizedCase("mobilenet-v2, int8", MobileNet, static, (3, 224, 224), None),
]
QUANTIZED: Mapping[str, QuantizedCase] = {case.name: case for case in _ALL}
